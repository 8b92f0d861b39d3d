// Logs for people, through spdlog: one line per event, to standard error, with colors on a terminal
// (unless NO_COLOR is set in the environment). Any thread; lines of several threads do not mix. The
// trainer does not log inside a step.
//
// Formatting is fmt's: log_info("peer {} left after {} s", name, seconds).
#pragma once

#include <spdlog/spdlog.h>

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace starling {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Once, at start. `name` stands in every line, so that the lines of several peers can be told
// apart.
void start_log(std::string_view name, LogLevel level);

// While it lives, nobody who logs waits: a thread of its own writes the lines, and where standard
// error stands still (a stopped terminal, a remote one that is out of reach, a reader that hangs),
// the newest kLinesKept wait, and a line tells how many went before them. One at a time; made by
// the main thread, which ends it after all others. Then what waits is written, or given up after
// `patience`. What was said just before a crash may be lost.
class BackgroundLog {
 public:
  static constexpr std::size_t kLinesKept = 1000;

  BackgroundLog(std::string_view name, LogLevel level,
                std::chrono::milliseconds patience = std::chrono::seconds(2));
  ~BackgroundLog();
  BackgroundLog(const BackgroundLog&) = delete;
  BackgroundLog& operator=(const BackgroundLog&) = delete;

 private:
  class Sink;
  struct Impl;
  std::string name_;
  LogLevel level_;
  std::chrono::milliseconds patience_;
  std::unique_ptr<Impl> impl_;
};

// Of what others can bring about as often as they like: the first, second, fourth, eighth time and
// so on are worth a line, so that nobody can fill a log or a disk. `count`: times so far.
constexpr bool is_worth_a_line(std::uint64_t count) { return std::has_single_bit(count); }

template <class... Args>
void log_debug(fmt::format_string<Args...> text, Args&&... args) {
  spdlog::debug(text, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  spdlog::info(text, std::forward<Args>(args)...);
}
template <class... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) {
  spdlog::warn(text, std::forward<Args>(args)...);
}
template <class... Args>
void log_error(fmt::format_string<Args...> text, Args&&... args) {
  spdlog::error(text, std::forward<Args>(args)...);
}

}  // namespace starling
