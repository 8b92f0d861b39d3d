#include <doctest/doctest.h>

#include <vector>

#include "gossip/initiator.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Letter = CoreBench::Letter;

}  // namespace

TEST_CASE("after a decline the next candidate is asked a moment later") {
  CoreBench bench;
  bench.stripes = {2, 2, 2, 2};
  bench.config.accepted_max = 1;
  bench.start_swarm(4);
  std::vector<Instant> offers;
  bench.passes = [&](const Letter& letter) {
    if (letter.from == PeerId{1} && is<Offer>(letter.message)) offers.push_back(bench.now);
    return !is<Push>(letter.message);
  };
  for (const std::uint64_t id : {2, 3, 4}) bench.core(id).on_close(bench.now);
  bench.publish(1, 0);
  CHECK(offers.size() == 1);
  CHECK(bench.core(1).exchanges_open() == 0);  // its fragment is free meanwhile
  bench.run(seconds(1));
  REQUIRE(offers.size() == 3);
  for (std::size_t i = 1; i < offers.size(); ++i) {
    CHECK(offers[i] > offers[i - 1]);
    CHECK(offers[i] - offers[i - 1] <= Initiator::kDeclinePauseMax);
  }
  CHECK(bench.core(1).stats().rounds_skipped == 1);
}

TEST_CASE("three peers that publish at once in a loop skip few rounds") {
  CoreBench bench;
  bench.config.accepted_max = 4;
  bench.start_swarm(3);
  constexpr int kRounds = 100;
  for (int round = 0; round < kRounds; ++round) {
    for (std::uint64_t id = 1; id <= 3; ++id) {
      bench.core(id).on_published(bench.now, FragmentId{0}, {});
    }
    bench.settle();
    bench.run(milliseconds(600));
  }
  std::uint64_t skipped = 0;
  for (std::uint64_t id = 1; id <= 3; ++id) skipped += bench.core(id).stats().rounds_skipped;
  MESSAGE("rounds skipped of " << 3 * kRounds << ": " << skipped);
  CHECK(skipped < 3 * kRounds / 20);
}

TEST_CASE("a peer that let an offer run out is not asked again before it is heard") {
  CoreBench bench;
  bench.config.suspect_after = std::chrono::hours(10);
  bench.start_swarm(2);
  const auto out_of_reach = [](const CoreBench::Letter& letter) {
    return letter.from != PeerId{2};
  };
  bench.passes = out_of_reach;
  const auto publish = [&bench](int times) {
    for (int i = 0; i < times; ++i) {
      bench.publish(1, 0);
      bench.run(seconds(10));
    }
    return bench.core(1).stats().offers_sent;
  };
  CHECK(publish(10) == 1);
  pass_all(bench);
  bench.run(seconds(10));  // it answers a ping
  publish(1);
  CHECK(bench.core(1).stats().exchanges_completed == 1);
}

TEST_CASE("an offer that overtakes the greeting is declined at once, and the next one is asked") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.start(3);
  int asked = 0;
  bench.passes = [&asked](const Letter& letter) {
    const bool to_newcomer = letter.from == PeerId{1} && letter.to == PeerId{3};
    if (to_newcomer && is<Offer>(letter.message)) ++asked;
    return !to_newcomer || !is_greeting(letter.message);
  };
  bench.join(3, 2);
  for (int round = 0; round < 20; ++round) {
    bench.publish(1, 0);
    bench.run(seconds(2));
  }
  CHECK(asked > 0);
  const CoreStats stats = bench.core(1).stats();
  CHECK(stats.offers_timed_out == 0);
  CHECK(stats.offers_declined == static_cast<std::uint64_t>(asked));
  CHECK(stats.exchanges_completed == 20);
}

TEST_CASE("what the first partners say is usual does not decide how far they may move a fragment") {
  const auto offered = [](std::uint64_t peers, const FragmentState& state) {
    CoreBench bench;
    bench.start_swarm(peers);
    std::optional<float> radius;
    bench.passes = [&radius](const CoreBench::Letter& letter) {
      const auto* offer = std::get_if<Offer>(&letter.message);
      if (offer != nullptr && !radius) radius = offer->clip_radius;
      return true;
    };
    bench.publish(1, 0, state);
    REQUIRE(radius);
    return *radius;
  };
  FragmentState state{.clip_radius = 0, .first_radius = 2, .voters = 0};
  CHECK(offered(5, state) == 2);  // nothing is known
  state.clip_radius = 60;
  for (state.voters = 1; state.voters < kVotersLeast; ++state.voters) CHECK(offered(5, state) == 2);
  CHECK(offered(5, state) == 60);
  state.voters = 1;
  CHECK(offered(2, state) == 60);  // there is nobody else
  CHECK(offered(3, state) == 2);
  state.clip_radius = 1;
  CHECK(offered(5, state) == 1);
  CHECK(offered(5, {.clip_radius = 0, .first_radius = 0, .voters = 0}) == 0);  // never clipped
  // Whatever they say, no less than a round of its own moves a fragment by, and never next to
  // nothing.
  CHECK(offered(5, {.clip_radius = 1, .step = 3, .first_radius = 24, .voters = 7}) == 3);
  CHECK(offered(5, {.clip_radius = 1e-44F, .first_radius = 24, .voters = 7}) == kClipRadiusMin);
}

}  // namespace starling::gossip
