#include "peer/roles/stall_watch.h"

#include <doctest/doctest.h>

namespace starling::peer {

namespace {

using std::chrono::minutes;
using std::chrono::seconds;

struct Watched {
  void run(Duration span, double passes_per_second, bool trains = true) {
    for (const Instant end = now + span; now < end; now += seconds(1)) {
      passes += passes_per_second;
      watch.look(now, static_cast<std::uint64_t>(passes), trains);
    }
  }
  StallWatch watch;
  Instant now{minutes(60)};
  double passes = 7;  // of an earlier life
};

}  // namespace

TEST_CASE("a trainer that stands still is told after ten minutes, and until it goes on") {
  Watched trainer;
  trainer.run(minutes(5), 2);
  REQUIRE(trainer.watch.usual());
  CHECK(to_seconds(*trainer.watch.usual()) == doctest::Approx(0.5).epsilon(0.01));
  trainer.run(minutes(9), 0);
  CHECK_FALSE(trainer.watch.stalled());
  trainer.run(minutes(2), 0);
  REQUIRE(trainer.watch.stalled());
  CHECK(to_seconds(*trainer.watch.stalled()) == doctest::Approx(11 * 60).epsilon(0.01));
  trainer.run(seconds(1), 1);
  CHECK_FALSE(trainer.watch.stalled());
}

TEST_CASE("a slow machine has as many of its passes, and its first one an hour") {
  Watched trainer;
  trainer.run(minutes(59), 0);
  CHECK_FALSE(trainer.watch.stalled());
  trainer.run(minutes(2), 0);
  CHECK(trainer.watch.stalled());
  Watched slow;
  slow.run(minutes(60), 1.0 / 60);
  slow.run(minutes(45), 0);
  CHECK_FALSE(slow.watch.stalled());
  slow.run(minutes(7), 0);
  CHECK(slow.watch.stalled());
}

TEST_CASE("a trainer that has nothing to train, or whose process was stopped, does not stall") {
  Watched trainer;
  trainer.run(minutes(5), 2);
  trainer.run(minutes(60), 0, false);
  CHECK_FALSE(trainer.watch.stalled());
  trainer.run(minutes(9), 0);
  trainer.now += std::chrono::hours(8);
  trainer.run(seconds(5), 0);
  CHECK_FALSE(trainer.watch.stalled());
  trainer.run(minutes(1), 0);
  CHECK(trainer.watch.stalled());
}

}  // namespace starling::peer
