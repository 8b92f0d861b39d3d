// LineFile: a file that lines, or records of bytes, are appended to, asynchronously on a libuv
// loop. Those that come while a write is under way go out together in the next one. A process that
// died in the middle of a line, or a write that failed there, is followed by a line feed, so that
// every later line still stands alone. Records tell their own length, so what a failed write has
// left of one is cut off again.
//
// A write that fails is reported once in the log, its lines are dropped and counted, and the next
// lines are tried again. Thread: the loop's. Must not be destroyed while !idle().
#pragma once

#include <uv.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "peer/io/file_io.h"

namespace starling::peer {

enum class Framing : std::uint8_t { kLines, kRecords };

class LineFile {
 public:
  struct Settings {
    Framing framing = Framing::kLines;
    std::size_t bytes_max = 0;  // waiting
  };
  // `on_idle` is called from the loop when everything has been written or dropped.
  LineFile(uv_loop_t* loop, std::filesystem::path path, Settings settings,
           std::function<void()> on_idle);

  void append(std::string_view line);  // without line feed; or a whole record
  bool idle() const noexcept { return !writing_; }
  std::uint64_t lines_written() const noexcept { return lines_written_; }
  std::uint64_t lines_dropped() const noexcept { return lines_dropped_; }

 private:
  static void on_written(uv_fs_t* request);
  void begin();
  void advance(ssize_t answer);
  void drop(const Error& error);
  Status open();
  Status mend();

  uv_loop_t* const loop_;
  const std::filesystem::path path_;
  const Settings settings_;
  const std::function<void()> on_idle_;
  FileHandle file_;
  uv_fs_t request_{};
  std::uint64_t whole_ = 0;  // bytes of the file up to the end of its last whole record
  std::string waiting_;      // complete lines
  std::string under_way_;    // handed to the system
  std::size_t written_ = 0;  // of under_way_
  std::uint64_t lines_waiting_ = 0, lines_under_way_ = 0;
  std::uint64_t lines_written_ = 0, lines_dropped_ = 0;
  bool writing_ = false;
  bool torn_ = false;     // the file may end in the middle of a line
  bool failing_ = false;  // the last write failed and was reported
};

}  // namespace starling::peer
