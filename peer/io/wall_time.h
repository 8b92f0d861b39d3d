// A moment by the wall's clock, as people mean it when they speak of hours and days. It may jump
// either way; durations are of base/time.h. peer/io/clock.h reads it.
#pragma once

#include <cstdint>

namespace starling::peer {

struct WallTime {
  std::int64_t unix_seconds = 0;
  int minute_of_day = 0;  // local
};

}  // namespace starling::peer
