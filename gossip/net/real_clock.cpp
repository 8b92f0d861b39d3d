#include "gossip/net/real_clock.h"

#include <chrono>
#include <ctime>

#include "base/assert.h"
#include "gossip/clock_offsets.h"

namespace starling::gossip {

Instant steady_now() {
  timespec now{};
  STARLING_ASSERT(clock_gettime(CLOCK_BOOTTIME, &now) == 0);
  return Instant(std::chrono::duration_cast<Duration>(std::chrono::seconds(now.tv_sec) +
                                                      std::chrono::nanoseconds(now.tv_nsec)));
}

std::uint64_t time_of_day_now() {
  return to_time_of_day(
      std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()));
}

}  // namespace starling::gossip
