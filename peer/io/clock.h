// The one place in peer/ where real clocks are read: now() is monotonic, for durations;
// wall_now() is the date, which may jump, for what people mean by hours and days.
#pragma once

#include <sys/timex.h>

#include <chrono>
#include <ctime>
#include <functional>

#include "base/time.h"
#include "gossip/net/real_clock.h"
#include "peer/io/wall_time.h"

namespace starling::peer {

using Date = std::function<WallTime()>;  // wall_now(), or what a test says

inline Instant now() { return gossip::steady_now(); }

inline WallTime wall_now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  localtime_r(&seconds, &local);
  return {static_cast<std::int64_t>(seconds), local.tm_hour * 60 + local.tm_min};
}

// The same date with its fraction, for what is compared between machines.
inline double unix_seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Whether somebody keeps that date right, as far as the kernel knows (adjtimex(2)).
inline bool is_clock_set() {
  timex state{};
  return adjtimex(&state) != TIME_ERROR;
}

inline double seconds_since(Instant start) { return to_seconds(now() - start); }

}  // namespace starling::peer
