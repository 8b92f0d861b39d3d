// Disk: the role that writes files. It owns a libuv loop and the folder of checkpoints; what the
// bytes mean is not its business. Nobody waits for it, and it waits for the system only in libuv.
//
// Checkpoints are written one at a time (checkpoint_write.h), then old ones are removed. A failure
// is a warning in the log, a count, and trouble until the next is written: the checkpoints that
// exist stay, training goes on, and the next one goes to a fresh file. Lines are appended to their
// files in the order they came; what cannot be written, or piles up beyond a limit, is dropped and
// counted.
//
// Threads: run() on the disk's own; submit(), append(), stop() and stats() on any other but the
// trainer's (they take a lock, shortly). Callbacks come on the disk's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "peer/files/checkpoint.h"
#include "peer/files/checkpoint_store.h"

namespace starling::peer {

struct CheckpointJob {
  CheckpointHeader header;  // its sequence is given by the disk
  SectionList contents;     // what it points to must stay as it is until `done`
  // Where it could not be written it is tried again so many times, after a pause each.
  int more_tries = 0;
  std::filesystem::path replaces{};  // one with the same in it, which goes when this is written
  Duration pause = std::chrono::seconds(10);
  std::function<void()> tried_again{};  // before each pause, on the disk's thread
  // Exactly once: the path of the checkpoint, or why there is none. On the disk's thread; on the
  // caller's, with kCancelled or kExhausted, if the disk takes no more jobs.
  std::function<void(Result<std::filesystem::path>)> done;
};

// While checkpoints fail. One that is tried again has failed that often, but counts as failed only
// when it is given up.
struct CheckpointTrouble {
  std::uint64_t tries = 0;       // that failed, since the last that did not
  std::uint64_t since_step = 0;  // of the first of them
  std::string why;               // the newest failed
};

struct DiskStats {
  std::uint64_t checkpoints_written = 0, checkpoints_failed = 0;
  std::uint64_t lines_written = 0, lines_dropped = 0;
  std::optional<CheckpointTrouble> trouble;  // empty: the newest try went well, or there was none
};

// Anything else that reads or writes: done in libuv's pool of threads, one at a time, in order.
class DiskTask {
 public:
  virtual ~DiskTask() = default;
  virtual void work() = 0;
};

class Disk {
 public:
  static constexpr std::size_t kJobsMax = 4;                          // waiting
  static constexpr std::size_t kLineBytesMax = std::size_t{4} << 20;  // waiting; and per file

  explicit Disk(CheckpointStore store);
  ~Disk();  // not while run() runs; does what was submitted, if run() was never called
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  // Blocks until stop() was called and all that was submitted before is done.
  void run();
  void stop();

  void submit(CheckpointJob job);
  // Dropped without a word if the disk takes nothing any more.
  void perform(std::unique_ptr<DiskTask> task);
  // `line` without line feed. The file is created if need be.
  void append(const std::filesystem::path& file, std::string_view line);
  // Bytes that tell their own length: a file holds lines or records.
  void append_record(const std::filesystem::path& file, std::string_view record);

  DiskStats stats() const;

 private:
  struct Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace starling::peer
