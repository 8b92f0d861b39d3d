#include "peer/roles/schedule_clock.h"

#include <doctest/doctest.h>

namespace starling::peer {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kLong = ScheduleClock::kBackAfter;

}  // namespace

TEST_CASE("a newcomer's clock follows the swarm as soon as it hears of it") {
  ScheduleClock clock;
  CHECK(clock.advance(Instant{}, 0, 0, 0) == 0);
  CHECK(clock.advance(Instant{}, 0, 100, 0) == 100);
  CHECK(clock.advance(Instant{}, 100, 200, 1e9) == 1e9);
}

TEST_CASE("after a restart the clock waits for the swarm to be heard") {
  ScheduleClock clock;
  Instant now{};
  for (; now < Instant{} + 2 * kLong; now += seconds(1)) {
    REQUIRE(clock.advance(now, 1e9, 1e6, 0) == 1e9);  // nothing heard
  }
  for (const Instant first = now; now < first + kLong; now += seconds(1)) {
    REQUIRE(clock.advance(now, 1e9, 1e6, 2e6) == 1e9);  // some of them
  }
  CHECK(clock.advance(now, 1e9, 1e6, 9e8) == 1e9);
  CHECK(clock.advance(now + seconds(1), 1e9, 1e6, 2e6) == 1e9);  // it begins anew
  CHECK(clock.advance(now + seconds(2), 1e9, 1e6, 1.1e9) == 1.1e9);
}

TEST_CASE("the clock goes back when the count stays below half of it") {
  ScheduleClock clock;
  const double lie = 1e15;
  CHECK(clock.advance(Instant{}, lie, 1e6, 1e9) == lie);
  CHECK(clock.advance(Instant{} + kLong - seconds(1), lie, 1e6, 1e9) == lie);
  CHECK(clock.advance(Instant{} + kLong, lie, 1e6, 1e9) == 1e9);
  CHECK(clock.advance(Instant{} + kLong + minutes(1), 1e9, 1e6, 6e8) == 1e9);  // not far enough
}

TEST_CASE("alone, and where all are heard from the start, the warm-up is where the clock is") {
  for (const double others : {0.0, 3.0}) {
    ScheduleClock clock;
    for (int step = 0; step < 100; ++step) {
      const double own = 100 * step;
      CHECK(clock.warmed(own * (1 + others), own, 100) == doctest::Approx(own * (1 + others)));
    }
  }
}

TEST_CASE("where many are heard of late the warm-up goes on at the swarm's pace") {
  ScheduleClock clock;
  double before = 0;
  for (int step = 0; step < 200; ++step) {
    const double own = 100 * step;
    const double all = step < 10 ? own : 16 * own;
    const double warmed = clock.warmed(all, own, 100);
    if (step < 10) CHECK(warmed == doctest::Approx(own));
    if (step >= 10) CHECK(warmed - before == doctest::Approx(16 * 100));
    before = warmed;
  }
}

TEST_CASE("the warm-up never goes past the clock, nor past one that goes back") {
  ScheduleClock clock;
  CHECK(clock.warmed(0, 0, 100) == 0);
  CHECK(clock.warmed(1e9, 100, 100) == 1e9);  // a swarm far ahead: through at once
  CHECK(clock.warmed(1e9, 200, 100) == 1e9);
  CHECK(clock.warmed(5e8, 300, 100) == 5e8);
  ScheduleClock restarted;
  CHECK(restarted.warmed(3e6, 1e6, 100) == 3e6);
}

TEST_CASE("a peer that trains alone never goes back") {
  ScheduleClock clock;
  double at = 1e9;  // of a swarm that it was once part of
  for (int minute = 0; minute < 60; ++minute) {
    at = clock.advance(Instant{} + minutes(minute), at, 1e6, 0);
  }
  CHECK(at == 1e9);
}

}  // namespace starling::peer
