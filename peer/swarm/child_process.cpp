#include "peer/swarm/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>

#include "base/this_thread.h"
#include "peer/io/file_io.h"

namespace starling::peer {

void LineBuffer::append(std::string_view bytes, const OnLine& on_line) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (partial_.size() + piece.size() > kChildLineBytesMax) overlong_ = true;
    if (overlong_) {
      partial_.clear();
    } else {
      partial_.append(piece);
    }
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    const std::string line = std::exchange(partial_, {});
    if (!std::exchange(overlong_, false)) on_line(line);
  }
}

std::string describe(const ChildExit& exit) {
  if (exit.signal == 0) return "exit code " + std::to_string(exit.code);
  const char* name = ::sigdescr_np(exit.signal);
  return "killed by signal " + std::to_string(exit.signal) + " (" +
         (name == nullptr ? "unknown" : name) + ")";
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(UvLoop& loop, const ChildCommand& command,
                                                          Handlers handlers) {
  STARLING_ASSERT(!command.arguments.empty());
  // Appended: the log of a restarted child must still tell why it had to be.
  const int log = ::open(command.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) return io_error("open", command.log, errno);
  std::unique_ptr<ChildProcess> child(new ChildProcess(std::move(handlers)));
  struct stat status {};
  if (::fstat(log, &status) == 0) child->log_begin_ = static_cast<std::uint64_t>(status.st_size);
  Status spawned = child->spawn(loop, command, log);
  ::close(log);
  if (!spawned.ok()) {
    return std::move(spawned).error().with_context("cannot start " + command.arguments.front());
  }
  return child;
}

Status ChildProcess::spawn(UvLoop& loop, const ChildCommand& command, int log) {
  std::vector<std::string> arguments = command.arguments;  // uv_spawn wants writable text
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);

  for (UvHandle<uv_pipe_t>* end : {&input_, &output_}) {
    auto pipe = std::make_unique<uv_pipe_t>();
    STARLING_ASSERT(uv_pipe_init(loop.get(), pipe.get(), 0) == 0);
    pipe->data = this;
    end->reset(pipe.release());
  }
  uv_stdio_container_t stdio[3];
  stdio[0].flags = static_cast<uv_stdio_flags>(UV_CREATE_PIPE | UV_READABLE_PIPE);
  stdio[0].data.stream = reinterpret_cast<uv_stream_t*>(input_.get());
  stdio[1].flags = static_cast<uv_stdio_flags>(UV_CREATE_PIPE | UV_WRITABLE_PIPE);
  stdio[1].data.stream = reinterpret_cast<uv_stream_t*>(output_.get());
  stdio[2].flags = UV_INHERIT_FD;
  stdio[2].data.fd = log;
  uv_process_options_t options{};
  options.file = pointers.front();
  options.args = pointers.data();
  options.flags = UV_PROCESS_DETACHED;
  options.stdio = stdio;
  options.stdio_count = 3;
  options.exit_cb = &ChildProcess::on_process_exit;

  auto process = std::make_unique<uv_process_t>();
  process->data = this;
  // libuv has no word for it, but a child inherits the processors of the thread that starts it.
  const std::vector<int> own_processors = allowed_processors();
  keep_this_thread_on(command.processors);
  const int outcome = uv_spawn(loop.get(), process.get(), &options);
  if (!command.processors.empty()) keep_this_thread_on(own_processors);
  process_.reset(process.release());  // initialised, and to be closed, even if it did not start
  if (outcome != 0) {
    exit_ = ChildExit{};  // there is nothing to kill
    return Error(outcome == UV_ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                 uv_strerror(outcome));
  }
  const int reading = uv_read_start(reinterpret_cast<uv_stream_t*>(output_.get()),
                                    &ChildProcess::on_allocate, &ChildProcess::on_read);
  if (reading != 0) return Error(ErrorCode::kIo, uv_strerror(reading));
  return ok_status();
}

ChildProcess::~ChildProcess() {
  if (exit_ || process_ == nullptr) return;
  // The handle is closed next, so nobody but us would collect it.
  ::kill(process_->pid, SIGKILL);
  ::waitpid(process_->pid, nullptr, 0);
}

void ChildProcess::send_signal(int number) noexcept {
  if (!exit_) uv_process_kill(process_.get(), number);
}

void ChildProcess::on_allocate(uv_handle_t* handle, std::size_t, uv_buf_t* buffer) {
  auto& self = *static_cast<ChildProcess*>(handle->data);
  *buffer = uv_buf_init(self.scratch_.data(), static_cast<unsigned>(self.scratch_.size()));
}

void ChildProcess::on_read(uv_stream_t* stream, ssize_t count, const uv_buf_t* buffer) {
  auto& self = *static_cast<ChildProcess*>(stream->data);
  if (count >= 0) {
    self.lines_.append({buffer->base, static_cast<std::size_t>(count)}, self.handlers_.on_line);
    return;
  }
  self.output_.reset();
  self.report_if_over();
}

void ChildProcess::on_process_exit(uv_process_t* process, std::int64_t code, int signal) {
  auto& self = *static_cast<ChildProcess*>(process->data);
  self.exit_ = ChildExit{code, signal};
  self.report_if_over();
}

void ChildProcess::report_if_over() {
  if (!exit_ || output_ != nullptr) return;
  // On the stack: the handler may destroy this object, and with it what it is called with.
  const auto on_exit = std::move(handlers_.on_exit);
  const ChildExit exit = *exit_;
  on_exit(exit);
}

std::vector<std::string> last_lines(const std::filesystem::path& log, const LogEnd& end) {
  constexpr std::streamoff kTailBytes = 8 * 1024;
  std::ifstream file(log, std::ios::binary);
  if (!file) return {};
  file.seekg(0, std::ios::end);
  const auto size = std::streamoff(file.tellg());
  const auto from = static_cast<std::streamoff>(end.from);
  file.seekg(std::max<std::streamoff>(from <= size ? from : 0, size - kTailBytes));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(std::move(line));
  if (lines.size() > end.lines_max) {
    lines.erase(lines.begin(), lines.end() - std::ptrdiff_t(end.lines_max));
  }
  return lines;
}

}  // namespace starling::peer
