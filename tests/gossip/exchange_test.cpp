#include "gossip/core.h"

#include <doctest/doctest.h>

#include <vector>

#include "base/rng.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Letter = CoreBench::Letter;

}  // namespace

TEST_CASE("a published fragment is exchanged stripe by stripe and both sides say so") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.publish(1, 1);
  check_same_applied(bench.node(1), bench.node(2), 5);
  for (const std::uint64_t id : {1, 2}) {
    REQUIRE(bench.node(id).ended.size() == 1);
    CHECK(bench.node(id).ended[0].outcome == Outcome::kCompleted);
    CHECK(bench.node(id).ended[0].stripes_applied == 5);
    CHECK(bench.core(id).stats().exchanges_completed == 1);
  }
  CHECK(bench.node(1).ended[0].role == Role::kInitiator);
  CHECK(bench.node(2).ended[0].role == Role::kResponder);
  CHECK(bench.node(1).ledger.rows().empty());
  CHECK(bench.node(2).ledger.rows().size() == 5);
  check_no_lease(bench, 2);
}

TEST_CASE("the terms are the milder of both sides and equal on both sides") {
  CoreBench bench;
  bench.config.mixing = 0.5F;
  std::vector<PairTerms> first;
  std::vector<PairTerms> second;
  std::vector<int> formats;
  bench.obeys = [&](PeerId, const Action& action) {
    if (const auto* apply = std::get_if<ApplyDelta>(&action)) first.push_back(apply->terms);
    if (const auto* stage = std::get_if<StageDelta>(&action)) second.push_back(stage->terms);
    if (const auto* encode = std::get_if<EncodeStripe>(&action)) formats.push_back(encode->format);
    return true;
  };
  bench.start(1);
  bench.config.mixing = 0.25F;
  bench.start(2);
  bench.join(2, 1);
  bench.core(2).on_fragment_state(bench.now, FragmentId{0}, {false, 3.0F});
  bench.publish(1, 0, {false, 0.0F});
  REQUIRE(first.size() == 3);
  REQUIRE(second.size() == 3);
  CHECK(first[0].mixing == 0.25F);
  CHECK(first[0].clip_radius == 3.0F);
  CHECK(first[0].mixing == second[0].mixing);
  CHECK(first[0].clip_radius == second[0].clip_radius);
  CHECK(formats[0] == bench.config.format);
  bench.publish(1, 1, {false, 2.0F});  // the other side knows no scales of fragment 1
  CHECK(formats.back() == bench.config.cold_format);
}

TEST_CASE("a pair whose codes differ takes those with fewer bits, whoever asks") {
  CoreBench bench;
  std::vector<int> formats;
  bench.obeys = [&](PeerId, const Action& action) {
    if (const auto* encode = std::get_if<EncodeStripe>(&action)) formats.push_back(encode->format);
    return true;
  };
  const auto exchanged_in = [&](std::uint64_t id) {
    formats.clear();
    bench.publish(id, 0, {false, 0.0F});
    REQUIRE(!formats.empty());
    return formats.back();
  };
  bench.start_swarm(2);
  for (const std::uint64_t id : {1, 2}) {
    bench.core(id).on_fragment_state(bench.now, FragmentId{0}, {false, 0.0F});
  }
  CHECK(exchanged_in(1) == bench.config.format);
  const auto& codes = bench.config.codes;  // from most to fewest bits
  for (std::size_t first = 0; first < codes.size(); ++first) {
    for (std::size_t second = 0; second < codes.size(); ++second) {
      CAPTURE(first);
      CAPTURE(second);
      bench.core(1).on_format(bench.now, codes[first].format);
      bench.core(2).on_format(bench.now, codes[second].format);
      for (const std::uint64_t id : {1, 2}) {
        CHECK(exchanged_in(id) == codes[std::max(first, second)].format);
      }
    }
  }
  // One that is of no such kind: the format that everybody knows.
  bench.core(2).on_format(bench.now, 0);
  CHECK(exchanged_in(1) == bench.config.cold_format);
  CHECK(bench.core(1).stats().exchanges_failed == 0);
}

TEST_CASE("an answer in other codes than were offered is refused where it has more bits") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.core(1).on_format(bench.now, bench.config.codes.back().format);
  std::vector<Letter> answers;
  bench.passes = [&](const Letter& letter) {
    if (!is<Accept>(letter.message)) return true;
    answers.push_back(letter);
    return false;
  };
  bench.publish(1, 0, {false, 0.0F});
  REQUIRE(!answers.empty());
  std::get<Accept>(answers[0].message).format = bench.config.codes.front().format;
  bench.deliver(answers[0]);
  CHECK(bench.core(1).stats().exchanges_completed == 0);
  CHECK(bench.core(1).stats().stripes_applied == 0);
}

TEST_CASE("a fragment takes part in one exchange at a time") {
  CoreBench bench;
  bench.config.accepted_max = 8;
  bench.start_swarm(3);
  bench.passes = [](const Letter& letter) { return !is<Push>(letter.message); };
  bench.publish(1, 0);
  bench.publish(2, 0);
  bench.publish(3, 0);
  std::size_t leases = 0;
  for (const std::uint64_t id : {1, 2, 3}) {
    CHECK(bench.core(id).exchanges_open() <= 1);
    leases += bench.core(id).exchanges_open();
  }
  CHECK(leases == 2);
  CHECK(bench.core(1).stats().declines_sent + bench.core(2).stats().declines_sent +
            bench.core(3).stats().declines_sent >
        0);
}

TEST_CASE("a busy peer declines at once and the next candidate is asked") {
  CoreBench bench;
  bench.stripes = {2, 2, 2, 2};
  bench.config.accepted_max = 1;
  bench.start_swarm(3);
  bench.passes = [](const Letter& letter) { return !is<Push>(letter.message); };
  bench.publish(1, 0);
  const auto busy = bench.core(2).exchanges_open() == 1 ? 2U : 3U;
  const auto other = 5U - busy;
  bench.publish(other, 1);
  bench.run(milliseconds(500));  // after a decline the next is asked a moment later
  CHECK(bench.core(busy).exchanges_open() == 1);
  CHECK(bench.core(other).exchanges_open() == 1);
  CHECK(bench.core(1).exchanges_open() == 2);
}

TEST_CASE("offers for one fragment that cross between two peers make one exchange") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.core(1).on_published(bench.now, FragmentId{0}, {});
  bench.core(2).on_published(bench.now, FragmentId{0}, {});
  bench.settle();
  bench.run(seconds(10));
  CHECK(bench.core(1).stats().exchanges_completed >= 1);
  CHECK(bench.core(1).stats().exchanges_completed == bench.core(2).stats().exchanges_completed);
  CHECK(bench.core(1).stats().rounds_skipped + bench.core(2).stats().rounds_skipped == 0);
  check_no_lease(bench, 2);
}

TEST_CASE("fragments published while the slot is taken are offered later, each once") {
  CoreBench bench;
  bench.stripes = {2, 2, 2};
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) { return !is<Push>(letter.message); };
  bench.publish(1, 0);
  bench.publish(1, 1);
  bench.publish(1, 2);
  bench.publish(1, 1);
  pass_all(bench);
  for (const Letter& letter : std::vector<Letter>(bench.held)) bench.deliver(letter);
  CHECK(bench.core(1).stats().exchanges_completed == 3);
}

TEST_CASE("an Accept that is lost comes again, and the exchange goes on") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) { return !is<Accept>(letter.message); };
  bench.publish(1, 0);
  pass_all(bench);
  bench.run(bench.config.silence_min);
  CHECK(bench.core(1).stats().offers_timed_out == 0);
  check_same_applied(bench.node(1), bench.node(2), 3);
  // Its delay is the responder's patience and no round trip.
  const std::vector<PeerView> partners = bench.core(1).peer_views(bench.now, 1);
  REQUIRE(partners.size() == 1);
  CHECK(partners[0].round_trip == Duration::zero());
}

TEST_CASE("an unanswered offer ends and leaves no lease at either side") {
  CoreBench bench;
  bench.config.stripe_timeout = minutes(1);
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) {
    return !is<Accept>(letter.message) && !is<Finish>(letter.message);
  };
  bench.publish(1, 0);
  CHECK(bench.core(2).exchanges_open() == 1);
  bench.run(bench.config.offer_timeout + seconds(1));
  CHECK(bench.core(1).stats().offers_timed_out == 1);
  CHECK(bench.core(1).stats().rounds_skipped == 1);
  CHECK(bench.core(2).exchanges_open() == 1);
  pass_all(bench);
  bench.run(4 * bench.config.silence_min);
  check_no_lease(bench, 2);
}

TEST_CASE("a Finish that is lost leaves no lease for longer than seconds") {
  CoreBench bench;
  bench.config.stripe_timeout = minutes(1);
  bench.start_swarm(2);
  bench.obeys = [](PeerId peer, const Action& action) {
    return peer != PeerId{1} || !std::holds_alternative<EncodeStripe>(action);
  };
  bench.passes = [](const Letter& letter) { return !is<Finish>(letter.message); };
  bench.publish(1, 0);
  CHECK(bench.core(1).exchanges_open() == 0);
  CHECK(bench.core(2).exchanges_open() == 1);
  pass_all(bench);
  bench.run(bench.config.silence_min + seconds(1));
  check_no_lease(bench, 2);
}

TEST_CASE("a closing peer finishes what is under way and declines the rest") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) { return !is<Push>(letter.message); };
  bench.publish(1, 0);
  bench.core(2).on_close(bench.now);
  pass_all(bench);
  for (const Letter& letter : std::vector<Letter>(bench.held)) bench.deliver(letter);
  check_same_applied(bench.node(1), bench.node(2), 3);
  bench.publish(1, 1);
  CHECK(bench.core(1).stats().offers_declined == 1);
  bench.publish(2, 1);
  CHECK(bench.core(2).stats().offers_sent == 0);
}

TEST_CASE("leaving ends every exchange once") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) { return !is<Push>(letter.message); };
  bench.publish(1, 0);
  bench.core(1).on_leave(bench.now);
  bench.settle();
  REQUIRE(bench.node(1).ended.size() == 1);
  CHECK(bench.node(1).ended[0].outcome == Outcome::kAborted);
  REQUIRE(bench.node(2).ended.size() == 1);
  CHECK(bench.node(2).ended[0].outcome == Outcome::kPeerLost);
  CHECK(bench.core(2).exchanges_open() == 0);
}

TEST_CASE("random loss, duplication and refusal never break a pair apart") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    CoreBench bench;
    bench.stripes = {4, 4};
    bench.start_swarm(3);
    std::vector<Letter> late;
    bench.passes = [&](const Letter& letter) {
      if (rng.chance(0.2)) late.push_back(letter);
      return !rng.chance(0.2);
    };
    bench.obeys = [&](PeerId, const Action& action) {
      return std::holds_alternative<Compensate>(action) || !rng.chance(0.05);
    };
    for (int round = 0; round < 40; ++round) {
      bench.publish(1 + rng.below(3), static_cast<std::uint16_t>(rng.below(2)));
      bench.run(seconds(rng.below(20)));
      while (!late.empty() && rng.chance(0.7)) {
        const Letter letter = late.back();
        late.pop_back();
        bench.deliver(letter);
      }
    }
    pass_all(bench);
    bench.obeys = [](PeerId, const Action&) { return true; };
    bench.run(minutes(4));
    check_no_lease(bench, 3);
    std::map<StripeRef, int> sides;
    for (std::uint64_t id = 1; id <= 3; ++id) {
      for (const auto& [ref, times] : bench.node(id).net_applied) {
        REQUIRE((times == 0 || times == 1));
        sides[ref] += times;
      }
    }
    for (const auto& [ref, count] : sides) REQUIRE(count % 2 == 0);
    CHECK(bench.core(1).stats().stripes_applied > 0);
  }
}

TEST_CASE("a peer that may not exchange begins nothing, says so, and goes on when it may") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.core(1).on_exchanges_allowed(bench.now, false);
  bench.publish(1, 1);
  CHECK(bench.core(1).stats().offers_sent == 0);
  std::vector<DeclineReason> reasons;
  bench.passes = [&](const Letter& letter) {
    if (const auto* decline = std::get_if<Decline>(&letter.message)) {
      reasons.push_back(decline->reason);
    }
    return true;
  };
  bench.publish(2, 0);
  CHECK(reasons == std::vector{DeclineReason::kResting});
  check_no_lease(bench, 2);
  CHECK(bench.core(2).stats().peers_alive == 1);
  bench.core(1).on_exchanges_allowed(bench.now, true);
  bench.settle();
  CHECK(bench.core(1).stats().exchanges_completed == 1);
  CHECK(bench.core(2).stats().exchanges_completed == 1);
}

TEST_CASE("exchanges under way end although no new ones are allowed") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) { return !is<Push>(letter.message); };
  bench.publish(1, 1);
  REQUIRE(bench.core(1).exchanges_open() == 1);
  for (const std::uint64_t id : {1, 2}) bench.core(id).on_exchanges_allowed(bench.now, false);
  bench.passes = [](const Letter&) { return true; };
  bench.run(minutes(2));
  CHECK(bench.core(1).stats().exchanges_completed == 1);
  CHECK(bench.core(2).stats().exchanges_completed == 1);
  check_no_lease(bench, 2);
}

}  // namespace starling::gossip
