// Logs for people, through spdlog: one line per event, to standard error. Any thread; lines of
// several threads do not mix. The trainer does not log inside a step.
//
// Formatting is fmt's: log_info("peer {} left after {} s", name, seconds).
#pragma once

#include <spdlog/spdlog.h>

#include <string_view>
#include <utility>

namespace starling {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Once, at start. `name` stands in every line, so that the lines of several peers can be told
// apart.
void start_log(std::string_view name, LogLevel level);

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
