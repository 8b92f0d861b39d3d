// The one place in peer/ where a real clock is read. Monotonic; for durations only.
#pragma once

#include <chrono>

#include "base/time.h"

namespace starling::peer {

inline Instant now() {
  return Instant(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

inline double seconds_since(Instant start) { return to_seconds(now() - start); }

}  // namespace starling::peer
