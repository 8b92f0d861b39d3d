// ChildProcess: one running program, started through libuv. Its standard output arrives line by
// line, its standard error is appended to a file. Its standard input is a pipe in which nothing
// ever comes and which ends when this process ends, however that happens: a peer that watches it
// (peer.h) never outlives its launcher.
//
// The child gets a session of its own, so that Ctrl-C on the terminal reaches only the launcher,
// which passes it on once. Bytes of the child are foreign: lines are bounded, longer ones are
// dropped. Errors: a program that cannot be started, a log that cannot be opened.
// Thread: the loop's.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "peer/io/uv_loop.h"

namespace starling::peer {

inline constexpr std::size_t kChildLineBytesMax = 64 * 1024;

// Cuts a stream of bytes into lines without their line feed.
class LineBuffer {
 public:
  using OnLine = std::function<void(std::string_view)>;
  void append(std::string_view bytes, const OnLine& on_line);

 private:
  std::string partial_;
  bool overlong_ = false;  // the current line has been given up; drop up to its end
};

struct ChildCommand {
  std::vector<std::string> arguments;  // the program's path first
  std::filesystem::path log;
  std::vector<int> processors{};  // it may use these only; empty: as this thread
};

struct ChildExit {
  std::int64_t code = 0;
  int signal = 0;  // zero: it ended by itself
  bool clean() const noexcept { return code == 0 && signal == 0; }
};
// "exit code 3", "killed by signal 9 (Killed)".
std::string describe(const ChildExit& exit);

class ChildProcess {
 public:
  struct Handlers {
    std::function<void(std::string_view line)> on_line;
    std::function<void(const ChildExit& exit)>
        on_exit;  // last: after every line. May destroy this.
  };

  static Result<std::unique_ptr<ChildProcess>> start(UvLoop& loop, const ChildCommand& command,
                                                     Handlers handlers);
  ~ChildProcess();  // kills it if it still runs

  void send_signal(int number) noexcept;
  pid_t pid() const noexcept { return process_->pid; }
  // In the log, in bytes: what stands before it is of earlier children.
  std::uint64_t log_begin() const noexcept { return log_begin_; }

 private:
  explicit ChildProcess(Handlers handlers) : handlers_(std::move(handlers)) {}
  Status spawn(UvLoop& loop, const ChildCommand& command, int log);
  static void on_allocate(uv_handle_t* handle, std::size_t suggested, uv_buf_t* buffer);
  static void on_read(uv_stream_t* stream, ssize_t count, const uv_buf_t* buffer);
  static void on_process_exit(uv_process_t* process, std::int64_t code, int signal);
  void report_if_over();

  Handlers handlers_;
  LineBuffer lines_;
  std::vector<char> scratch_ = std::vector<char>(16 * 1024);
  std::uint64_t log_begin_ = 0;
  std::optional<ChildExit> exit_;
  UvHandle<uv_process_t> process_;
  UvHandle<uv_pipe_t> input_;
  UvHandle<uv_pipe_t> output_;  // null after its end
};

struct LogEnd {
  std::size_t lines_max = 0;
  std::uint64_t from = 0;  // bytes; none before these, unless somebody has cut the log
};
// The end of a log file, of its last 8 KiB. Empty if unreadable.
std::vector<std::string> last_lines(const std::filesystem::path& log, const LogEnd& end);

}  // namespace starling::peer
