#include "peer/held_clock.h"

#include <doctest/doctest.h>

#include <thread>

namespace starling::peer {

TEST_CASE("work counts as the processor time it took") {
  const HeldClock clock;
  const Instant start = now();
  while (seconds_since(start) < 0.02) {  // reading the clock is work too
  }
  CHECK(clock.held() > 0);
  CHECK(clock.held() <= seconds_since(start));
}

TEST_CASE("a wait counts in full") {
  const HeldClock clock;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(clock.held() >= 0.02);
}

}  // namespace starling::peer
