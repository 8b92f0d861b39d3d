#include "gossip/swarm_watch.h"

#include <doctest/doctest.h>

namespace starling::gossip {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// Lets twenty seconds go by; the only report of that time.
std::optional<SwarmChanged> look(SwarmWatch& watch, Instant& now, std::uint64_t present) {
  std::optional<SwarmChanged> told;
  for (int i = 0; i < 20; ++i) {
    now += seconds(1);
    const auto report = watch.look(now, present);
    CHECK_FALSE((told && report));
    if (report) told = report;
  }
  return told;
}

}  // namespace

TEST_CASE("half of the others dead at once is a split, and their return heals it") {
  SwarmWatch watch;
  Instant now{};
  CHECK_FALSE(look(watch, now, 20));
  for (int i = 0; i < 10; ++i) watch.on_lost(now);
  const auto split = look(watch, now, 10);
  REQUIRE(split);
  CHECK(split->change == SwarmChange::kSplit);
  CHECK(split->moved == 10);
  CHECK(split->alive == 10);
  CHECK(split->share == doctest::Approx(0.5));
  CHECK_FALSE(watch.whole());
  now += minutes(60);
  CHECK_FALSE(look(watch, now, 10));
  for (int i = 0; i < 9; ++i) watch.on_found(now);
  const auto healed = look(watch, now, 19);
  REQUIRE(healed);
  CHECK(healed->change == SwarmChange::kHealed);
  CHECK(healed->moved == 9);
  CHECK(watch.whole());
  CHECK_FALSE(look(watch, now, 19));
}

TEST_CASE("deaths one by one and a single death are no split") {
  SwarmWatch watch;
  Instant now{};
  CHECK_FALSE(look(watch, now, 10));
  for (std::uint64_t left = 9; left > 3; --left) {
    watch.on_lost(now);
    CHECK_FALSE(look(watch, now, left));
    now += minutes(3);
  }
  watch.on_lost(now);
  CHECK_FALSE(look(watch, now, 2));
}

TEST_CASE("a peer that loses everybody is alone until somebody comes back") {
  SwarmWatch watch;
  Instant now{};
  CHECK_FALSE(look(watch, now, 1));
  watch.on_lost(now);
  const auto alone = look(watch, now, 0);
  REQUIRE(alone);
  CHECK(alone->change == SwarmChange::kAlone);
  now += minutes(5);
  CHECK_FALSE(look(watch, now, 0));
  watch.on_found(now);
  const auto healed = look(watch, now, 1);
  REQUIRE(healed);
  CHECK(healed->change == SwarmChange::kHealed);
}

TEST_CASE("when the others leave with a word there is nothing to report") {
  SwarmWatch watch;
  Instant now{};
  CHECK_FALSE(look(watch, now, 3));
  CHECK_FALSE(look(watch, now, 0));
  CHECK_FALSE(look(watch, now, 2));
  CHECK(watch.whole());
}

TEST_CASE("outages from which all came back slowly do not hide that a later split has healed") {
  SwarmWatch watch;
  Instant now{};
  std::uint64_t present = 20;
  CHECK_FALSE(look(watch, now, present));
  const auto split = [&] {
    for (int i = 0; i < 10; ++i) watch.on_lost(now);
    const auto told = look(watch, now, present -= 10);
    REQUIRE(told);
    CHECK(told->change == SwarmChange::kSplit);
  };
  for (int outage = 0; outage < 10; ++outage) {
    split();
    for (; present < 20; ++present) {
      CHECK(watch.whole() == (present >= 18));
      watch.on_found(now += minutes(3));
      CHECK_FALSE(look(watch, now, present + 1));
    }
    CHECK(watch.whole());
  }
  split();
  for (int i = 0; i < 9; ++i) watch.on_found(now);
  const auto healed = look(watch, now, 19);
  REQUIRE(healed);
  CHECK(healed->change == SwarmChange::kHealed);
}

TEST_CASE("a split that does not heal in a day is none any more, unless nobody is left") {
  for (const std::uint64_t left : {10ULL, 0ULL}) {
    CAPTURE(left);
    SwarmWatch watch;
    Instant now{};
    CHECK_FALSE(look(watch, now, 20));
    for (std::uint64_t i = left; i < 20; ++i) watch.on_lost(now);
    CHECK(look(watch, now, left));
    CHECK_FALSE(look(watch, now += std::chrono::hours(24), left));
    CHECK_FALSE(look(watch, now, left));
    CHECK(watch.whole() == (left > 0));
    for (int i = 0; i < 10; ++i) watch.on_found(now);
    const auto healed = look(watch, now, left + 10);
    REQUIRE(healed);
    CHECK(healed->change == SwarmChange::kHealed);
  }
}

TEST_CASE("a second split is reported too") {
  SwarmWatch watch;
  Instant now{};
  CHECK_FALSE(look(watch, now, 40));
  for (int i = 0; i < 20; ++i) watch.on_lost(now);
  CHECK(look(watch, now, 20));
  now += minutes(5);
  for (int i = 0; i < 10; ++i) watch.on_lost(now);
  const auto again = look(watch, now, 10);
  REQUIRE(again);
  CHECK(again->change == SwarmChange::kSplit);
}

}  // namespace starling::gossip
