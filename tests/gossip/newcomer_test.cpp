#include "gossip/newcomer.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <map>
#include <vector>

#include "gossip/core_context.h"
#include "gossip/membership.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr double kRate = 100;  // tokens per second

// The second and the third, beside the first, which has trained.
void start_two_newcomers(CoreBench& bench) {
  bench.start_swarm(1);
  bench.core(1).on_progress(bench.now, 1000000, 0);
  bench.run(seconds(10));
  for (const std::uint64_t id : {2, 3}) {
    bench.start(id);
    bench.join(id, 1);
    bench.run(seconds(5));
    CHECK(bench.core(id).weight() == 0);
  }
}

// Three peers that have trained for ten hours, and then the first for so long without the others,
// whose checkpoints are of that moment.
struct Restarts {
  explicit Restarts(Duration away) {
    bench.start_swarm(3);
    train(hours(10), {1, 2, 3});
    for (const std::uint64_t id : {2, 3}) {
      checkpoints[id].tokens = bench.core(id).token_map();
      bench.crash(id);
    }
    train(away, {1});
  }
  void restart(std::uint64_t id) { bench.start(id, 2, checkpoints[id]); }

  void train(Duration time, std::initializer_list<std::uint64_t> who) {
    bench.run(time);
    trained += static_cast<std::uint64_t>(kRate * to_seconds(time));
    for (const std::uint64_t id : who) bench.core(id).on_progress(bench.now, trained, kRate);
    bench.run(minutes(1));
  }

  CoreBench bench;
  std::map<std::uint64_t, RestoredState> checkpoints;
  std::uint64_t trained = 0;  // by whoever was there all the time
};

}  // namespace

TEST_CASE(
    "a newcomer is pulled without pulling at first, and its weight rises as it meets others") {
  CoreBench bench;
  bench.start_swarm(3);
  for (std::uint64_t id = 1; id <= 3; ++id) bench.core(id).on_progress(bench.now, 1000000, 0);
  bench.run(seconds(10));
  bench.start(4);
  bench.join(4, 1);
  bench.run(seconds(5));
  REQUIRE(bench.core(4).stats().peers_alive == 3);
  CHECK(bench.core(4).weight() == 0);
  CHECK(bench.core(1).weight() == 1);
  std::vector<float> weights;
  for (int round = 0; round < 20; ++round) {
    const float before = bench.core(4).weight();
    bench.publish(4, 0);
    CHECK(bench.core(4).weight() == before);  // that of its other fragment
    bench.publish(4, 1);
    bench.publish(4, 0);
    if (bench.core(4).weight() != before) weights.push_back(bench.core(4).weight());
  }
  CHECK(weights == std::vector<float>{0.25F, 0.5F, 0.75F, 1.0F});
}

TEST_CASE("a newcomer that is clipped, far from the others, does not count yet") {
  CoreBench bench;
  bench.start_swarm(3);
  for (std::uint64_t id = 1; id <= 3; ++id) bench.core(id).on_progress(bench.now, 1000000, 0);
  bench.run(seconds(10));
  bench.start(4);
  bench.join(4, 1);
  bench.run(seconds(5));
  const auto meet = [&bench](int times, float clip_factor) {
    bench.yes.clip_factor = clip_factor;
    for (int i = 0; i < times; ++i) {
      for (const auto fragment : {std::uint16_t{0}, std::uint16_t{1}}) bench.publish(4, fragment);
    }
  };
  meet(20, kNearClip / 2);
  CHECK(bench.core(4).weight() == 0);
  for (const std::uint64_t id : {1, 4}) {  // both sides are told
    int completed = 0;
    for (const ExchangeEnded& ended : bench.node(id).ended) {
      if (ended.outcome != Outcome::kCompleted) continue;
      CHECK(ended.clip_factor == kNearClip / 2);
      ++completed;
    }
    CHECK(completed > 5);
  }
  meet(20, kNearClip);
  CHECK(bench.core(4).weight() == 1);
}

TEST_CASE("one partner alone does not make a newcomer count") {
  Newcomer newcomer(1);
  newcomer.decide(0, 1e6, 1);
  const auto meet = [&newcomer](std::uint64_t id) {
    newcomer.on_completed(FragmentId{0}, PeerId{id}, 1, 3);
  };
  for (std::uint32_t i = 0; i < Newcomer::kInARow; ++i) meet(7);
  CHECK(newcomer.weight() == 0);
  for (const std::uint64_t id : {8, 7, 8, 9}) meet(id);
  CHECK(newcomer.weight() == 1);
  Newcomer with_one(1);
  with_one.decide(0, 1e6, 1);
  for (int i = 0; i < 5; ++i) with_one.on_completed(FragmentId{0}, PeerId{7}, 1, 1);
  CHECK(with_one.weight() == 1);
}

TEST_CASE("a newcomer whose other partners exchange nothing counts in the end all the same") {
  Newcomer newcomer(1);
  newcomer.decide(0, 1e6, 1);
  const auto meet_often = [&newcomer] {
    for (std::uint32_t i = 0; i < Newcomer::kInARow; ++i) {
      newcomer.on_completed(FragmentId{0}, PeerId{7}, 1, 3);
    }
  };
  newcomer.on_completed(FragmentId{0}, PeerId{7}, 1, 3);
  for (int i = 0; i < Newcomer::kPulled + Newcomer::kRising - 1; ++i) {
    CHECK(newcomer.weight() < 1);
    meet_often();
  }
  CHECK(newcomer.weight() == 1);
}

TEST_CASE("two newcomers beside one trained peer count after they have met it often enough") {
  CoreBench bench;
  start_two_newcomers(bench);
  bench.run(seconds(10));
  for (int round = 0; round < 30; ++round) {
    for (const std::uint64_t id : {2, 3}) {
      for (const auto fragment : {std::uint16_t{0}, std::uint16_t{1}}) bench.publish(id, fragment);
    }
  }
  for (const std::uint64_t id : {2, 3}) CHECK(bench.core(id).weight() == 1);
}

TEST_CASE("newcomers whose trained partners are gone for good count again, for each other") {
  CoreBench bench;
  start_two_newcomers(bench);
  bench.run(2 * Membership::kOrphanedAfter);
  CHECK(bench.core(2).weight() == 0);  // while it is there
  bench.crash(1);
  bench.run(Membership::kOrphanedAfter - seconds(10));
  CHECK(bench.core(2).weight() == 0);  // it may come back
  bench.run(minutes(3));
  for (const std::uint64_t id : {2, 3}) CHECK(bench.core(id).weight() == 1);
}

TEST_CASE("newcomers that were left alone are newcomers again when the trained ones are back") {
  CoreBench bench;
  start_two_newcomers(bench);
  bench.passes = [](const CoreBench::Letter& letter) {
    return letter.from != PeerId{1} && letter.to != PeerId{1};
  };
  bench.run(Membership::kOrphanedAfter + minutes(3));
  for (const std::uint64_t id : {2, 3}) CHECK(bench.core(id).weight() == 1);
  bench.passes = [](const CoreBench::Letter&) { return true; };
  bench.run(minutes(5));
  REQUIRE(bench.core(2).stats().peers_alive == 2);
  for (const std::uint64_t id : {2, 3}) CHECK(bench.core(id).weight() == 0);
}

TEST_CASE("peers that only a checkpoint tells of make nobody a newcomer") {
  CoreBench bench;
  bench.start_swarm(4);
  bench.core(1).on_progress(bench.now, 1'000'000, 0);
  for (std::uint64_t id = 2; id <= 4; ++id) bench.core(id).on_progress(bench.now, 9'000'000, 0);
  bench.run(seconds(30));
  RestoredState restored;
  restored.tokens = bench.core(1).token_map();
  for (std::uint64_t id = 1; id <= 4; ++id) bench.crash(id);
  bench.start(5);
  bench.core(5).on_progress(bench.now, 1000, 0);
  bench.start(1, 2, restored);
  bench.join(1, 5);
  bench.run(seconds(15));
  CHECK(bench.core(1).weight() == 1);
  CHECK(bench.core(5).weight() == 0);
}

TEST_CASE("who is restored from too old a checkpoint is pulled, however much it had trained") {
  for (const Duration away : {Duration(minutes(20)), Duration(minutes(40))}) {
    CAPTURE(to_seconds(away));
    Restarts restarts(away);
    CoreBench& bench = restarts.bench;
    restarts.restart(2);
    bench.join(2, 1);
    bench.run(3 * Newcomer::kAgeWithin);
    const bool old = away > bench.config.missed_max;
    CHECK(bench.core(2).weight() == (old ? 0 : 1));
    CHECK(bench.core(1).weight() == 1);
    REQUIRE(bench.node(2).footings.size() == 1);  // and the operator is told
    const FootingChanged& told = bench.node(2).footings.front();
    CHECK(told.footing == (old ? Footing::kPulled : Footing::kLate));
    CHECK(told.missed_seconds == doctest::Approx(to_seconds(away)).epsilon(0.01));
    if (!old) continue;
    for (int meeting = 0; meeting < Newcomer::kPulled + Newcomer::kRising; ++meeting) {
      bench.exchange_all(2, 0);
      bench.exchange_all(2, 1);
    }
    CHECK(bench.core(2).weight() == 1);
    CHECK(bench.node(2).footings.back().footing == Footing::kSettled);
    CHECK(bench.core(2).missed() < 1);
  }
}

TEST_CASE("nobody has missed more than the time since its checkpoint, whatever others say") {
  Restarts restarts(hours(2));
  CoreBench& bench = restarts.bench;
  restarts.checkpoints[2].age.written = bench.now - minutes(10);
  restarts.restart(2);
  bench.join(2, 1);
  bench.run(3 * Newcomer::kAgeWithin);
  CHECK(bench.core(2).weight() == 1);
  REQUIRE(bench.node(2).footings.size() == 1);
  CHECK(bench.node(2).footings.front().footing == Footing::kLate);
  CHECK(bench.core(2).missed() == doctest::Approx(600).epsilon(0.05));
}

TEST_CASE("who was late and met nobody is as late after its next checkpoint, and later by more") {
  Restarts restarts(minutes(40));
  CoreBench& bench = restarts.bench;
  restarts.restart(2);
  bench.join(2, 1);
  bench.run(3 * Newcomer::kAgeWithin);
  REQUIRE(bench.core(2).weight() == 0);
  RestoredState& next = restarts.checkpoints[2];  // it knows now what the others have trained
  next = {.ledger = {},
          .tokens = bench.core(2).token_map(),
          .passes = {},
          .inherited = 0,
          .age = bench.core(2).age(bench.now)};
  CHECK(next.age.missed == doctest::Approx(2400).epsilon(0.01));
  bench.crash(2);
  restarts.train(minutes(10), {1});
  bench.start(2, 3, next);
  bench.join(2, 1);
  bench.run(3 * Newcomer::kAgeWithin);
  CHECK(bench.core(2).weight() == 0);
  CHECK(bench.core(2).missed() == doctest::Approx(3000).epsilon(0.01));
}

TEST_CASE("who has heard of nobody since its restart stays as old as its checkpoint") {
  Restarts restarts(hours(2));
  CoreBench& bench = restarts.bench;
  RestoredState& first = restarts.checkpoints[2];
  first.age.written = bench.now - hours(2);
  bench.passes = [](const CoreBench::Letter&) { return false; };
  restarts.restart(2);
  bench.run(minutes(5));
  RestoredState next = first;
  next.age = bench.core(2).age(bench.now);
  CHECK(next.age.written == first.age.written);
  bench.crash(2);
  bench.passes = [](const CoreBench::Letter&) { return true; };
  bench.start(2, 3, next);
  bench.join(2, 1);
  bench.run(3 * Newcomer::kAgeWithin);
  CHECK(bench.core(2).weight() == 0);
  CHECK(bench.core(2).age(bench.now).written == bench.now);  // now it knows
}

TEST_CASE("peers that were restored and trained apart are not too old to each other") {
  Restarts restarts(seconds(10));
  CoreBench& bench = restarts.bench;
  bench.crash(1);
  for (const std::uint64_t id : {2, 3}) restarts.restart(id);
  for (const std::uint64_t id : {2, 3}) {
    bench.core(id).on_progress(bench.now, static_cast<std::uint64_t>(3600 * kRate), kRate);
  }
  bench.join(3, 2);
  bench.run(3 * Newcomer::kAgeWithin);
  REQUIRE(bench.core(2).stats().peers_alive == 1);
  for (const std::uint64_t id : {2, 3}) CHECK(bench.core(id).weight() == 1);
}

TEST_CASE("peers that are gone do not tell how old a checkpoint is") {
  CoreBench bench;
  bench.start_swarm(5);
  for (std::uint64_t id = 1; id <= 5; ++id) bench.core(id).on_progress(bench.now, 1'000'000, kRate);
  bench.run(seconds(30));
  RestoredState restored;
  restored.tokens = bench.core(2).token_map();
  bench.crash(2);
  for (std::uint64_t id = 3; id <= 5; ++id) {
    bench.core(id).on_progress(bench.now, 1'001'000, kRate);
    bench.run(seconds(10));
    bench.crash(id);
  }
  bench.core(1).on_progress(bench.now, 2'000'000, kRate);
  bench.run(minutes(2));
  bench.start(2, 2, restored);
  bench.join(2, 1);
  bench.run(3 * Newcomer::kAgeWithin);
  CHECK(bench.core(2).weight() == 0);
}

TEST_CASE("a swarm that has rested is not old, whoever comes back first") {
  Restarts restarts(seconds(10));
  CoreBench& bench = restarts.bench;
  bench.crash(1);
  bench.run(hours(100));
  for (const std::uint64_t id : {2, 3}) restarts.restart(id);
  bench.join(3, 2);
  bench.run(seconds(5));
  for (const std::uint64_t id : {2, 3}) {
    bench.core(id).on_progress(bench.now, 500, kRate);
    CHECK(bench.core(id).weight() == 1);
  }
  bench.run(minutes(1));
  for (const std::uint64_t id : {2, 3}) CHECK(bench.core(id).weight() == 1);
}

TEST_CASE("a newcomer whose weights are mostly of others is one until it has met them") {
  CoreBench bench;
  bench.start_swarm(2);
  for (std::uint64_t id = 1; id <= 2; ++id) bench.core(id).on_progress(bench.now, 7'000'000, 0);
  bench.run(seconds(10));
  RestoredState restored;
  restored.inherited = 3'400'000;
  bench.start(3, 1, restored);
  bench.join(3, 1);
  bench.run(seconds(5));
  REQUIRE(bench.core(3).weight() == 0);
  bench.core(3).on_progress(bench.now, 200'000, 0);
  bench.run(2 * Membership::kOrphanedAfter);
  CHECK(bench.core(3).weight() == 0);
}

TEST_CASE("a newcomer is one also where the first that it meets has trained little itself") {
  CoreBench bench;
  bench.start_swarm(3);
  for (std::uint64_t id = 1; id <= 3; ++id) bench.core(id).on_progress(bench.now, 1000000, 0);
  bench.run(seconds(10));
  bench.start(4);
  bench.join(4, 1);
  bench.core(4).on_progress(bench.now, 10000, 0);
  bench.run(minutes(2));  // until no record is news
  bench.passes = [](const CoreBench::Letter& letter) {
    const bool of_newcomer = letter.from == PeerId{5} || letter.to == PeerId{5};
    return !of_newcomer || letter.from == PeerId{4} || letter.to == PeerId{4};
  };
  bench.start(5);
  bench.join(5, 4);
  bench.run(seconds(5));
  CHECK(bench.core(5).weight() == 0);
}

}  // namespace starling::gossip
