// The machine's own clocks. Drivers read them and hand the cores what they show (base/time.h).
// Thread: any.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace starling::gossip {

Instant steady_now();             // never goes back; its zero means nothing
std::uint64_t time_of_day_now();  // as in clock_offsets.h; may jump

}  // namespace starling::gossip
