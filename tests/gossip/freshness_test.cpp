#include "gossip/freshness.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::seconds;
using Letter = CoreBench::Letter;

constexpr FragmentId kFirst{0}, kSecond{1};

Instant at(double second) {
  return Instant{} + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(second));
}

// A peer of a tenth of the fastest's speed in a swarm that moves at 0.9 of it, which publishes
// every 20 seconds, after `until` seconds.
Freshness slow_one(double until) {
  Freshness freshness(2);
  for (int second = 0; second <= until; ++second) {
    freshness.on_progress(at(second), static_cast<std::uint64_t>(10 * second), 0.9, 100);
    if (second % 20 == 0) freshness.on_published(at(second), kFirst);
  }
  return freshness;
}

}  // namespace

TEST_CASE("who trains as fast as the swarm moves is never late") {
  Freshness freshness(1);
  for (int second = 0; second < 100; ++second) {
    freshness.on_progress(at(second), static_cast<std::uint64_t>(100 * second), 0.9, 100);
    freshness.on_published(at(second), kFirst);
    CHECK(freshness.lag(kFirst) == 0);
    CHECK(freshness.share(kFirst, 1) == 1);
  }
}

TEST_CASE("a slow peer falls behind, and counts for less by the square of its lag in rounds") {
  const Freshness freshness = slow_one(50);
  CHECK(freshness.lag(kFirst) == doctest::Approx(0.8 * 50));
  CHECK(freshness.share(kFirst, 1) == doctest::Approx(1.0 / (1 + 2 * 2)));
  CHECK(freshness.share(kFirst, 0.5) == doctest::Approx(1.0 / (1 + 0.5 * 2 * 2)));
  CHECK(freshness.share(kFirst, 0) == 1);
  CHECK(freshness.share(kSecond, 1) == 1);  // how long its rounds are is not known
}

TEST_CASE("a peer that stands still falls behind, whatever its speed was") {
  Freshness freshness(1);
  freshness.on_progress(at(0), 0, 1, 100);
  freshness.on_progress(at(10), 1000, 1, 100);
  CHECK(freshness.lag(kFirst) == 0);
  freshness.on_progress(at(70), 1000, 1, 100);
  CHECK(freshness.lag(kFirst) == doctest::Approx(60));
}

TEST_CASE("who begins late counts for less at once, and by its own rounds once they are known") {
  Freshness freshness(2);
  freshness.begin_late(50);
  const double at_first = 1 / (1 + std::pow(50 / Freshness::kRoundAtFirst, 2));
  CHECK(freshness.lag(kSecond) == 50);
  CHECK(freshness.share(kFirst, 1) == doctest::Approx(at_first));
  freshness.on_mixed(kFirst, 0.5, 1e30);  // no partner makes it later
  CHECK(freshness.lag(kFirst) == 50);
  freshness.on_published(at(0), kFirst);
  freshness.on_progress(at(20), 100, 1, 0);
  freshness.on_published(at(20), kFirst);
  CHECK(freshness.share(kFirst, 1) == doctest::Approx(1 / (1 + 2.5 * 2.5)));
  CHECK(freshness.share(kSecond, 1) == doctest::Approx(at_first));
  freshness.on_mixed(kSecond, 1, 0);
  CHECK(freshness.lag(kSecond) == 0);
}

TEST_CASE("what is offered again, with nothing new in it, makes rounds no shorter") {
  Freshness freshness = slow_one(100);
  const double before = freshness.share(kFirst, 1);
  for (int half = 201; half < 260; ++half) {  // training has ended, the others go on
    freshness.on_progress(at(0.5 * half), 1000, 0, 100);
    freshness.on_published(at(0.5 * half), kFirst);
  }
  CHECK(freshness.share(kFirst, 1) == doctest::Approx(before));
  // The first round of who goes on is no shorter for it.
  Freshness paused = slow_one(100);
  for (int half = 201; half < 240; ++half) {
    if (half % 2 == 0) paused.on_progress(at(0.5 * half), 1000, 0, 0);
    paused.on_published(at(0.5 * half), kFirst);
  }
  const double late = paused.lag(kFirst);
  paused.on_progress(at(120), 1200, 0, 0);
  paused.on_published(at(120), kFirst);
  CHECK(paused.share(kFirst, 1) == doctest::Approx(1 / (1 + std::pow(late / 20, 2))));
  // Several between two looks at the progress share the time.
  Freshness fast(1);
  fast.begin_late(10);
  for (int tenth = 0; tenth <= 100; ++tenth) {
    if (tenth % 10 == 0) fast.on_progress(at(0.1 * tenth), static_cast<std::uint64_t>(tenth), 1, 0);
    if (tenth % 2 == 0) fast.on_published(at(0.1 * tenth), kFirst);
  }
  CHECK(fast.share(kFirst, 1) == doctest::Approx(1 / (1 + std::pow(Freshness::kRoundsMax, 2))));
  fast.on_mixed(kFirst, 0.96, 0);  // 0.4 s late
  CHECK(fast.share(kFirst, 1) == doctest::Approx(1 / (1 + 2.0 * 2.0)));
}

TEST_CASE("what was missed is made good by meetings, not by time, or by weights of somebody else") {
  Freshness freshness(2);
  CHECK(freshness.missed() == 0);
  freshness.begin_late(80);
  freshness.on_progress(at(0), 0, 0.5, 100);
  freshness.on_progress(at(1000), 100'000, 0.5, 100);  // trains twice as fast as the swarm moves
  CHECK(freshness.lag(kFirst) == 0);
  CHECK(freshness.missed() == 80);
  freshness.on_mixed(kFirst, 0.5, 0);
  CHECK(freshness.missed() == doctest::Approx(60));
  freshness.on_mixed(kSecond, 1, 1e30);
  CHECK(freshness.missed() == doctest::Approx(20));
  freshness.renew();
  CHECK(freshness.missed() == 0);
  CHECK(freshness.lag(kSecond) == 0);
}

TEST_CASE("where no rate is known nobody is late") {
  Freshness freshness(1);
  freshness.on_progress(at(0), 0, 1, 0);
  freshness.on_progress(at(100), 0, 1, 0);
  CHECK(freshness.lag(kFirst) == 0);
}

TEST_CASE("an exchange moves the lag as far as the weights") {
  Freshness freshness = slow_one(50);  // 40 s late
  freshness.on_mixed(kFirst, 0.75, 4);
  CHECK(freshness.lag(kFirst) == doctest::Approx(13));
  freshness.on_mixed(kFirst, 0, 1000);
  CHECK(freshness.lag(kFirst) == doctest::Approx(13));
  CHECK(freshness.lag(kSecond) == doctest::Approx(40));
}

TEST_CASE("a liar makes a peer late for no longer than until it meets somebody else") {
  Freshness freshness = slow_one(50);
  freshness.on_mixed(kFirst, 0.5, 1e30);
  CHECK(freshness.lag(kFirst) <= 20 + 0.5 * 20 * Freshness::kRoundsMax);
  CHECK(freshness.share(kFirst, 1) > 0);
  freshness.on_mixed(kFirst, 0.999, 0);
  CHECK(freshness.lag(kFirst) < 1);
}

TEST_CASE("late peers offer less weight, and say how late they are") {
  for (const double power : {0.0, 2.0}) {
    CAPTURE(power);
    CoreBench bench;
    bench.config.rate_power = power;
    bench.start_swarm(3);
    std::map<std::uint64_t, std::vector<Offer>> offers;
    bench.passes = [&](const Letter& letter) {
      if (is<Offer>(letter.message)) {
        offers[letter.from.value].push_back(std::get<Offer>(letter.message));
      }
      return !is<Accept>(letter.message);  // so that nothing is mixed
    };
    const float rates[] = {1000, 100, 100};
    for (int second = 0; second < 100; ++second) {
      for (std::uint64_t id = 1; id <= 3; ++id) {
        const float rate = rates[id - 1];
        bench.core(id).on_progress(bench.now, static_cast<std::uint64_t>(rate) * second, rate);
        if (second % 20 == 10) bench.publish(id, 0);
      }
      bench.run(seconds(1));
    }
    REQUIRE(!offers[1].empty());
    REQUIRE(!offers[2].empty());
    CHECK(offers[1].back().weight == 1);
    CHECK(offers[1].back().lag_s < 1.5F);
    if (power == 0) {
      CHECK(offers[2].back().weight == 1);
      CHECK(offers[2].back().lag_s == 0);
    } else {
      CHECK(offers[2].back().lag_s > 40);
      CHECK(offers[2].back().weight < 0.01F / 5);
      CHECK(offers[2].back().weight > 0);
    }
  }
}

TEST_CASE("a slow peer that has met the fastest is in time again, and tells another") {
  CoreBench bench;
  bench.start_swarm(3);
  std::map<std::uint64_t, float> lags;
  bool meets = false;
  bench.passes = [&](const Letter& letter) {
    if (is<Offer>(letter.message)) {
      lags[letter.from.value] = std::get<Offer>(letter.message).lag_s;
      return meets && letter.from == PeerId{1};  // the slow ones begin nothing
    }
    return true;
  };
  const float rates[] = {1000, 100, 100};
  int second = 0;
  const auto train = [&](int until) {
    for (; second < until; ++second) {
      for (std::uint64_t id = 1; id <= 3; ++id) {
        const float rate = rates[id - 1];
        bench.core(id).on_progress(bench.now, static_cast<std::uint64_t>(rate) * second, rate);
        if (second % 10 == 5) bench.publish(id, 0);
      }
      bench.run(seconds(1));
    }
  };
  train(100);
  const float late = lags[2];
  CHECK(late > 40);
  CHECK(bench.core(2).weight() == doctest::Approx(0.01));
  meets = true;
  train(200);
  CHECK(lags[2] < late / 2);
  CHECK(lags[3] < late / 2);
}

}  // namespace starling::gossip
