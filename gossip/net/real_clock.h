// The machine's own clocks. Drivers read them and hand the cores what they show (base/time.h).
// Thread: any.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace starling::gossip {

// Never goes back, and goes on while the machine sleeps: whoever wakes has been away, and the
// others have not. Its zero means nothing.
Instant steady_now();
std::uint64_t time_of_day_now();  // as in clock_offsets.h; may jump

}  // namespace starling::gossip
