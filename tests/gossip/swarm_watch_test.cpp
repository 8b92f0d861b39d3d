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

// One after the other, the first `count` of the others.
void lose(SwarmWatch& watch, Instant now, std::uint64_t count, std::uint64_t first = 0) {
  for (std::uint64_t i = first; i < first + count; ++i) watch.on_lost(now, PeerId{i});
}
void find(SwarmWatch& watch, Instant now, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) watch.on_found(now, PeerId{i});
}

}  // namespace

TEST_CASE("half of the others dead at once is a split, and their return heals it") {
  SwarmWatch watch;
  Instant now{};
  CHECK_FALSE(look(watch, now, 20));
  lose(watch, now, 10);
  const auto split = look(watch, now, 10);
  REQUIRE(split);
  CHECK(split->change == SwarmChange::kSplit);
  CHECK(split->moved == 10);
  CHECK(split->alive == 10);
  CHECK(split->share == doctest::Approx(0.5));
  CHECK_FALSE(watch.whole());
  now += minutes(60);
  CHECK_FALSE(look(watch, now, 10));
  find(watch, now, 9);
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
    watch.on_lost(now, PeerId{left});
    CHECK_FALSE(look(watch, now, left));
    now += minutes(3);
  }
  watch.on_lost(now, PeerId{3});
  CHECK_FALSE(look(watch, now, 2));
}

TEST_CASE("a peer that loses everybody is alone until somebody comes back") {
  SwarmWatch watch;
  Instant now{};
  CHECK_FALSE(look(watch, now, 1));
  watch.on_lost(now, PeerId{1});
  const auto alone = look(watch, now, 0);
  REQUIRE(alone);
  CHECK(alone->change == SwarmChange::kAlone);
  now += minutes(5);
  CHECK_FALSE(look(watch, now, 0));
  watch.on_found(now, PeerId{1});
  const auto healed = look(watch, now, 1);
  REQUIRE(healed);
  CHECK(healed->change == SwarmChange::kHealed);
}

TEST_CASE("those who are struck off are not waited for") {
  SwarmWatch watch;
  Instant now{};
  CHECK_FALSE(look(watch, now, 20));
  lose(watch, now, 10);
  REQUIRE(look(watch, now, 10));
  REQUIRE(watch.split());
  for (std::uint64_t lost = 0; lost < 10; ++lost) watch.on_struck_off(PeerId{lost}, false);
  watch.on_struck_off(PeerId{15}, true);
  CHECK_FALSE(look(watch, now, 9));
  CHECK(watch.whole());
  lose(watch, now, 3, 10);  // nor is it a split if they are just lost
  for (std::uint64_t lost = 10; lost < 13; ++lost) watch.on_struck_off(PeerId{lost}, false);
  CHECK_FALSE(look(watch, now, 6));
  CHECK(watch.whole());
}

TEST_CASE("of those who are struck off only who was there counts less") {
  SwarmWatch watch;
  Instant now{};
  CHECK_FALSE(look(watch, now, 40));
  lose(watch, now, 10);
  REQUIRE(look(watch, now, 30));
  SUBCASE("dead before the split") {
    for (std::uint64_t dead = 100; dead < 110; ++dead) watch.on_struck_off(PeerId{dead}, false);
    CHECK_FALSE(look(watch, now, 30));
    CHECK(watch.split());
  }
  SUBCASE("dead since, for a moment or for long") {
    for (const auto since : {seconds(1), seconds(300)}) {
      const std::uint64_t first = since == seconds(1) ? 10 : 15;
      lose(watch, now, 5, first);
      const std::uint64_t left = 40 - first - 5;
      for (int second = 0; second < since.count(); ++second) {
        CHECK_FALSE(watch.look(now += seconds(1), left));
      }
      for (std::uint64_t id = first; id < first + 5; ++id) watch.on_struck_off(PeerId{id}, false);
    }
    for (std::uint64_t back = 0; back < 7; ++back) {
      CHECK(watch.split());
      watch.on_found(now += minutes(3), PeerId{back});
      CHECK_FALSE(look(watch, now, 20 + back + 1));
    }
    CHECK(watch.whole());  // 27 of the 30 that are left
  }
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
    lose(watch, now, 10);
    const auto told = look(watch, now, present -= 10);
    REQUIRE(told);
    CHECK(told->change == SwarmChange::kSplit);
    CHECK(watch.split());
  };
  for (int outage = 0; outage < 10; ++outage) {
    split();
    for (; present < 20; ++present) {
      CHECK(watch.whole() == (present >= 18));
      CHECK(watch.split() != watch.whole());
      watch.on_found(now += minutes(3), PeerId{present});
      CHECK_FALSE(look(watch, now, present + 1));
    }
    CHECK(watch.whole());
  }
  split();
  find(watch, now, 9);
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
    lose(watch, now, 20 - left);
    CHECK(look(watch, now, left));
    CHECK_FALSE(look(watch, now += std::chrono::hours(24), left));
    CHECK_FALSE(look(watch, now, left));
    CHECK(watch.whole() == (left > 0));
    find(watch, now, 10);
    const auto healed = look(watch, now, left + 10);
    REQUIRE(healed);
    CHECK(healed->change == SwarmChange::kHealed);
  }
}

TEST_CASE("while the lost come back it is not told how many are lost") {
  SwarmWatch watch;
  Instant now{};
  CHECK_FALSE(look(watch, now, 20));
  lose(watch, now, 10);
  const auto nothing_for = [&](int seconds_left, std::uint64_t present) {
    for (; seconds_left > 0; --seconds_left) CHECK_FALSE(watch.look(now += seconds(1), present));
  };
  nothing_for(14, 10);
  watch.on_found(now, PeerId{0});
  watch.on_found(now, PeerId{1});
  nothing_for(14, 12);
  const auto split = watch.look(now += seconds(1), 12);
  REQUIRE(split);
  CHECK(split->moved == 8);
  CHECK(split->alive == 12);
}

TEST_CASE("who is back before a split is told was never missed, and does not heal one") {
  SwarmWatch watch;
  Instant now{};
  CHECK_FALSE(look(watch, now, 20));
  for (int blip = 0; blip < 3; ++blip) {
    lose(watch, now, 10);
    CHECK_FALSE(watch.look(now += seconds(9), 10));
    find(watch, now, 9);
    CHECK_FALSE(look(watch, now, 19));  // one stays away
    CHECK(watch.whole());
    watch.on_found(now, PeerId{9});
  }
  // Nor a second one, of others.
  lose(watch, now, 10);
  REQUIRE(look(watch, now, 10));
  lose(watch, now, 5, 10);
  for (std::uint64_t i = 10; i < 15; ++i) watch.on_found(now + seconds(5), PeerId{i});
  CHECK_FALSE(look(watch, now, 10));
  CHECK_FALSE(watch.whole());
  find(watch, now, 10);
  const auto healed = look(watch, now, 20);
  REQUIRE(healed);
  CHECK(healed->moved == 10);
}

TEST_CASE("a second split is reported too") {
  SwarmWatch watch;
  Instant now{};
  CHECK_FALSE(look(watch, now, 40));
  lose(watch, now, 20);
  CHECK(look(watch, now, 20));
  now += minutes(5);
  lose(watch, now, 10, 20);
  const auto again = look(watch, now, 10);
  REQUIRE(again);
  CHECK(again->change == SwarmChange::kSplit);
}

}  // namespace starling::gossip
