// Time without a clock. LogicalClock has no now(): inside the cores time is an argument, so that
// tests and the simulator own it. Only drivers and peer/ read a clock (gossip/net/real_clock.h).
#pragma once

#include <chrono>
#include <cstdint>

namespace starling {

using Duration = std::chrono::nanoseconds;

struct LogicalClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<LogicalClock, duration>;
  static constexpr bool is_steady = true;
};

using Instant = LogicalClock::time_point;

constexpr double to_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
constexpr Duration from_seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace starling
