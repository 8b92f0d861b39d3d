#include "peer/roles/held_clock.h"

#include <doctest/doctest.h>

#include <thread>

namespace starling::peer {

TEST_CASE("work counts as the processor time it took") {
  const Instant start = now();
  const HeldClock clock;
  while (seconds_since(start) < 0.02) {  // reading the clock is work too
  }
  CHECK(clock.held() > 0);
  CHECK(clock.held() <= 1.01 * seconds_since(start));  // two clocks, of which one is disciplined
}

TEST_CASE("a wait counts in full") {
  const HeldClock clock;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(clock.held() >= 0.02);
}

}  // namespace starling::peer
