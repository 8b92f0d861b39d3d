#include "gossip/net/real_clock.h"

#include <chrono>

#include "gossip/clock_offsets.h"

namespace starling::gossip {

std::uint64_t time_of_day_now() {
  return to_time_of_day(
      std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()));
}

}  // namespace starling::gossip
