#include "base/log.h"

#include <fcntl.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace starling {

namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::info;
}

// As https://no-color.org has it.
spdlog::color_mode color_mode() {
  const char* const wish = std::getenv("NO_COLOR");
  const bool none = wish != nullptr && *wish != '\0';
  return none ? spdlog::color_mode::never : spdlog::color_mode::automatic;
}

void become_the_log(std::shared_ptr<spdlog::logger> logger, LogLevel level) {
  logger->set_pattern("%H:%M:%S.%e %^%-7l%$ [%n] %v");
  logger->set_level(to_spdlog(level));
  spdlog::set_default_logger(std::move(logger));
}

using ThreadPool = spdlog::details::thread_pool;
using UnlockedSink = spdlog::sinks::ansicolor_sink<spdlog::details::console_nullmutex>;

// What is said through it is written at once, and never left in a buffer for somebody else.
std::shared_ptr<std::FILE> second_standard_error() {
  int copy = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) copy = ::open("/dev/null", O_WRONLY | O_CLOEXEC);  // nobody is to hear it
  std::FILE* const stream = ::fdopen(copy, "w");
  STARLING_ASSERT(stream != nullptr);
  std::setvbuf(stream, nullptr, _IONBF, 0);
  return {stream, std::fclose};
}

}  // namespace

void start_log(std::string_view name, LogLevel level) {
  become_the_log(
      std::make_shared<spdlog::logger>(
          std::string(name), std::make_shared<spdlog::sinks::stderr_color_sink_mt>(color_mode())),
      level);
}

// Standard error, as the thread that writes sees it: by a stream of its own, so that it holds no
// lock of the usual one, which the end of a process takes.
class BackgroundLog::Sink final : public UnlockedSink {
 public:
  Sink(ThreadPool& queue, std::shared_ptr<std::FILE> stream)
      : UnlockedSink(stream.get(), color_mode()), stream_(std::move(stream)), queue_(queue) {}

  void log(const spdlog::details::log_msg& line) override {
    const std::size_t lost = queue_.overrun_counter();
    if (lost > lost_) {
      const std::string text =
          fmt::format("{} lines are lost: the output stood still", lost - lost_);
      UnlockedSink::log({line.logger_name, spdlog::level::warn, text});
      lost_ = lost;
    }
    UnlockedSink::log(line);
  }
  // Asked for once, behind the last line.
  void flush() override { all_written_.set_value(); }

  bool all_written_within(std::chrono::milliseconds patience) {
    return all_written_.get_future().wait_for(patience) == std::future_status::ready;
  }

 private:
  std::shared_ptr<std::FILE> stream_;
  ThreadPool& queue_;
  std::size_t lost_ = 0;  // that were told
  std::promise<void> all_written_;
};

struct BackgroundLog::Impl {
  std::shared_ptr<ThreadPool> queue = std::make_shared<ThreadPool>(kLinesKept, 1);
  std::shared_ptr<Sink> sink = std::make_shared<Sink>(*queue, second_standard_error());
};

BackgroundLog::BackgroundLog(std::string_view name, LogLevel level,
                             std::chrono::milliseconds patience)
    : name_(name), level_(level), patience_(patience), impl_(std::make_unique<Impl>()) {
  become_the_log(
      std::make_shared<spdlog::async_logger>(name_, impl_->sink, impl_->queue,
                                             spdlog::async_overflow_policy::overrun_oldest),
      level_);
}

BackgroundLog::~BackgroundLog() {
  spdlog::default_logger()->flush();
  if (impl_->sink->all_written_within(patience_)) {
    start_log(name_, level_);
    return;
  }
  // Whoever waited for its thread, or for the terminal, would wait as long: it goes on until the
  // process ends.
  static auto& left = *new std::vector<std::unique_ptr<Impl>>;
  left.push_back(std::move(impl_));
}

}  // namespace starling
