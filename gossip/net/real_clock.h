// The machine's own clocks. Drivers read them and hand the cores what they show (base/time.h).
// Thread: any.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace starling::gossip {

// Never goes back; its zero means nothing.
inline Instant steady_now() {
  return Instant(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}
std::uint64_t time_of_day_now();  // as in clock_offsets.h; may jump

}  // namespace starling::gossip
