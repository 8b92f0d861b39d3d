#include "gossip/responder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Letter = CoreBench::Letter;

}  // namespace

TEST_CASE("a lost delta is asked for and sent again") {
  CoreBench bench;
  bench.config.silence_min = seconds(30);  // the initiator waits longer than the responder asks
  bench.start_swarm(2);
  bench.exchange_all(2, 0);  // the responder to be knows the other's pace
  bench.exchange_all(1, 0);
  lose<Delta>(bench, 1);
  int pushes = 0;
  const auto drops = bench.passes;
  bench.passes = [&pushes, drops](const Letter& letter) {
    pushes += is<Push>(letter.message) ? 1 : 0;
    return drops(letter);
  };
  bench.publish(1, 0);
  bench.run(bench.config.query_after + seconds(2));
  CHECK(pushes == 3);
  check_same_applied(bench.node(1), bench.node(2), 9);
  check_no_lease(bench, 2);
}

TEST_CASE("a mixer that refuses costs the stripe and nothing else") {
  using Kind = std::size_t;
  const std::vector<Action> kinds{EncodeStripe{}, StageDelta{}, ApplyDelta{}, ApplyStaged{}};
  for (const Action& refused : kinds) {
    const Kind kind = refused.index();
    CAPTURE(kind);
    CoreBench bench;
    bench.start_swarm(2);
    int refusals = 1;
    bench.obeys = [&](PeerId, const Action& action) {
      return action.index() != kind || refusals-- <= 0;
    };
    bench.publish(1, 0);
    bench.run(seconds(60));
    const bool again = std::holds_alternative<ApplyDelta>(refused);  // worth another attempt
    check_same_applied(bench.node(1), bench.node(2), again ? 3 : 2);
    check_no_lease(bench, 2);
  }
}

TEST_CASE("a responder restored without the deed makes the initiator undo its own") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) { return !is<Commit>(letter.message); };
  bench.publish(1, 0);
  bench.crash(2);
  bench.run(seconds(30));
  pass_all(bench);
  bench.start(2, 2);
  bench.join(2, 1);
  bench.run(minutes(1));
  CHECK(bench.core(1).stats().stripes_compensated == 3);
  check_same_applied(bench.node(1), bench.node(2), 0);
  CHECK(bench.node(1).ledger.rows().empty());
}

TEST_CASE("a responder restored from a ledger without room says nothing of whom it does not know") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) { return !is<Commit>(letter.message); };
  bench.publish(1, 0);
  bench.crash(2);
  bench.run(seconds(30));
  pass_all(bench);
  RestoredState full;
  for (std::uint64_t counter = 1; counter <= Ledger::kRowsMax; ++counter) {
    const ExchangeKey other{{PeerId{3}, 1}, {PeerId{2}, 1}, counter};
    full.ledger.push_back({{other, FragmentId{0}, 0, 0}, Role::kResponder});
  }
  bench.start(2, 2, full);
  bench.join(2, 1);
  bench.run(minutes(1));
  CHECK(bench.core(1).stats().stripes_compensated == 0);
  CHECK(bench.core(1).stripes_unsettled() == 3);
  CHECK(bench.core(2).stats().messages_refused > 0);
}

TEST_CASE("a responder restored with the deed acknowledges it") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) { return !is<Committed>(letter.message); };
  bench.publish(1, 0);
  const std::vector<LedgerRow> rows = bench.node(2).ledger.rows();
  REQUIRE(rows.size() == 3);
  bench.crash(2);
  bench.run(seconds(30));
  pass_all(bench);
  bench.start(2, 2, {rows, {}});
  bench.join(2, 1);
  bench.run(minutes(1));
  CHECK(bench.core(1).stats().stripes_compensated == 0);
  check_same_applied(bench.node(1), bench.node(2), 3);
}

TEST_CASE("old messages never bring a restarted responder back into an exchange") {
  CoreBench bench;
  bench.start_swarm(2);
  std::vector<Letter> overheard;
  bench.passes = [&](const Letter& letter) {
    overheard.push_back(letter);
    return !is<Committed>(letter.message);
  };
  bench.publish(1, 0);
  bench.crash(2);
  bench.run(seconds(2));
  pass_all(bench);
  bench.start(2, 2);
  bench.node(2).net_applied.clear();
  bench.join(2, 1);
  for (const Letter& letter : overheard) {
    if (letter.to == PeerId{2}) bench.deliver(letter);
  }
  bench.run(minutes(1));
  CHECK(bench.node(2).net_applied.empty());
  CHECK(bench.core(2).exchanges_open() == 0);
}

TEST_CASE("a finished exchange never begins again") {
  CoreBench bench;
  bench.start_swarm(2);
  std::vector<Letter> overheard;
  bench.passes = [&](const Letter& letter) {
    overheard.push_back(letter);
    return true;
  };
  bench.publish(1, 0);
  const std::vector<Letter> replay = overheard;
  for (int i = 0; i < 2; ++i) {
    for (const Letter& letter : replay) bench.deliver(letter);
    for (auto letter = replay.rbegin(); letter != replay.rend(); ++letter) bench.deliver(*letter);
  }
  bench.run(minutes(1));
  check_same_applied(bench.node(1), bench.node(2), 3);
  CHECK(bench.node(1).ended.size() == 1);
  CHECK(bench.node(2).ended.size() == 1);
  check_no_lease(bench, 2);
}

TEST_CASE("stripes in doubt without a lease are bounded and the oldest gives way") {
  CoreBench bench;
  bench.stripes = {400};
  bench.config.window = 400;
  bench.start_swarm(2);
  bench.exchange_all(1, 0);
  lose<Delta>(bench, 400);
  bench.publish(1, 0);
  bench.crash(1);
  bench.run(2 * bench.config.stripe_timeout + seconds(5));
  CHECK(bench.core(2).exchanges_open() == 0);
  CHECK(bench.core(2).stats().stripes_abandoned == 400 - Responder::kStagedMax);
  bench.run(bench.config.responder_gives_up + seconds(1));
  CHECK(bench.core(2).stats().stripes_abandoned == 400);
}

TEST_CASE("a push after the lease is over ends the exchange at its initiator") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) { return !is<Push>(letter.message); };
  bench.publish(1, 0);
  const ExchangeKey key = std::get<Push>(bench.held.at(0).message).ref.exchange;
  bench.deliver({PeerId{1}, PeerId{2}, Finish{key}});
  pass_all(bench);
  bench.deliver(Letter(bench.held.at(0)));
  check_no_lease(bench, 2);
  check_same_applied(bench.node(1), bench.node(2), 0);
}

TEST_CASE("stripes that were given up and are pushed again count as any others") {
  constexpr std::uint32_t kMany = 64;
  CoreBench bench;
  bench.stripes = {kMany};
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) {  // the core of 2 is not asked
    return letter.to != PeerId{2} || is<Ping>(letter.message) || is<Pong>(letter.message);
  };
  const std::uint32_t most = 2U * bench.config.window;
  std::uint32_t staged = 0, peak = 0;
  bench.obeys = [&](PeerId, const Action& action) {
    staged += std::holds_alternative<StageDelta>(action) ? 1 : 0;
    staged -= std::holds_alternative<DropStaged>(action) ? 1 : 0;
    peak = std::max(peak, staged);
    return true;
  };
  const ExchangeKey key{{PeerId{2}, 1}, {PeerId{1}, 1}, 1000};
  bench.deliver({PeerId{2}, PeerId{1}, Offer{key, FragmentId{0}, kMany, 2, true, 1.0F, 0.5F}});
  REQUIRE(bench.core(1).exchanges_open() == 1);
  const auto ref = [&](std::uint32_t stripe, std::uint8_t attempt) {
    return StripeRef{key, FragmentId{0}, stripe, attempt};
  };
  for (std::uint32_t stripe = 0; stripe < kMany; ++stripe) {
    bench.deliver({PeerId{2}, PeerId{1}, Push{ref(stripe, 0)}});
    bench.deliver({PeerId{2}, PeerId{1}, Abort{ref(stripe, 0)}});
  }
  CHECK(staged == 0);
  for (std::uint32_t stripe = 0; stripe < kMany; ++stripe) {
    bench.deliver({PeerId{2}, PeerId{1}, Push{ref(stripe, 1)}});
  }
  CHECK(staged == most);
  CHECK(peak == most);
  bench.deliver({PeerId{2}, PeerId{1}, Abort{ref(0, 1)}});  // room for one
  bench.deliver({PeerId{2}, PeerId{1}, Push{ref(kMany - 1, 2)}});
  CHECK(staged == most);
}

TEST_CASE("however often a delta is asked for, it is made again once at a time, with a pause") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) {
    return !is<Commit>(letter.message) && !is<Abort>(letter.message) && !is<Finish>(letter.message);
  };
  bench.publish(1, 0);
  REQUIRE_FALSE(bench.held.empty());
  const StripeRef ref = std::get<Commit>(bench.held[0].message).ref;
  int reissues = 0;
  bench.obeys = [&reissues](PeerId, const Action& action) {
    reissues += std::holds_alternative<ReissueDelta>(action) ? 1 : 0;
    return true;
  };
  for (int second = 0; second < 10; ++second) {
    for (int i = 0; i < 20; ++i) {
      bench.deliver({PeerId{1}, PeerId{2}, Resend{ref}});
      bench.deliver({PeerId{1}, PeerId{2}, Push{ref}});
    }
    bench.run(seconds(1));
  }
  CHECK(reissues >= 8);  // it may have been lost
  CHECK(reissues <= 10);
}

TEST_CASE("a stripe that is pushed under one attempt again and again is an offence in the end") {
  for (const bool finished : {false, true}) {
    CAPTURE(finished);
    CoreBench bench;
    bench.start_swarm(2);
    bench.passes = [](const Letter& letter) {
      return letter.from != PeerId{2} || is<Pong>(letter.message);
    };
    const ExchangeKey key{{PeerId{2}, 1}, {PeerId{1}, 1}, 900};
    bench.deliver(
        {PeerId{2}, PeerId{1}, Offer{key, FragmentId{0}, 3, 2, false, 1.0F, 0.5F, 0.0F, 1000}});
    const StripeRef ref{key, FragmentId{0}, 0, 0};
    bench.deliver({PeerId{2}, PeerId{1}, Push{ref}});
    if (finished) bench.deliver({PeerId{2}, PeerId{1}, Finish{key}});
    constexpr MessageMeter::Measure kMost = MessageMeter::kUnasked;
    const auto all = static_cast<std::uint32_t>(kMost.at_once) + kMost.deluge_drops;
    for (std::uint32_t i = 1; i < all; ++i) bench.deliver({PeerId{2}, PeerId{1}, Push{ref}});
    CHECK_FALSE(bench.core(1).muted(bench.now, PeerId{2}));
    for (int i = 0; i < 2; ++i) bench.deliver({PeerId{2}, PeerId{1}, Push{ref}});
    CHECK(bench.core(1).muted(bench.now, PeerId{2}));
  }
}

TEST_CASE("a later attempt at a stripe, whose answer may have been lost, is no offence") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) {
    return letter.from != PeerId{2} || is<Pong>(letter.message);
  };
  std::uint64_t pushes = 0;
  constexpr MessageMeter::Measure kMost = MessageMeter::kUnasked;
  const auto all = static_cast<std::uint64_t>(kMost.at_once) + 2 * kMost.deluge_drops;
  for (std::uint64_t number = 1; pushes < all; ++number) {
    const ExchangeKey key{{PeerId{2}, 1}, {PeerId{1}, 1}, number};
    bench.deliver(
        {PeerId{2}, PeerId{1}, Offer{key, FragmentId{0}, 3, 2, false, 1.0F, 0.5F, 0.0F, 1000}});
    for (std::uint8_t attempt = 0; attempt < kAttemptsMax; ++attempt, ++pushes) {
      bench.deliver({PeerId{2}, PeerId{1}, Push{{key, FragmentId{0}, 0, attempt}}});
    }
    bench.deliver({PeerId{2}, PeerId{1}, Finish{key}});
  }
  CHECK_FALSE(bench.core(1).muted(bench.now, PeerId{2}));
  CHECK(bench.node(1).rejected.empty());
}

TEST_CASE("later attempts at a stripe that is done are counted like any that nobody waits for") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) {
    return letter.from != PeerId{2} || is<Pong>(letter.message);
  };
  const ExchangeKey key{{PeerId{2}, 1}, {PeerId{1}, 1}, 900};
  bench.deliver(
      {PeerId{2}, PeerId{1}, Offer{key, FragmentId{0}, 3, 2, false, 1.0F, 0.5F, 0.0F, 1000}});
  const StripeRef ref{key, FragmentId{0}, 0, 0};
  bench.deliver({PeerId{2}, PeerId{1}, Push{ref}});
  bench.deliver({PeerId{2}, PeerId{1}, Commit{ref}});
  constexpr MessageMeter::Measure kMost = MessageMeter::kUnasked;
  const StripeRef later{key, FragmentId{0}, 0, 1};
  for (std::uint32_t i = 0; i < kMost.at_once + kMost.deluge_drops + 2; ++i) {
    bench.deliver({PeerId{2}, PeerId{1}, Push{later}});
  }
  CHECK(bench.core(1).muted(bench.now, PeerId{2}));
}

}  // namespace starling::gossip
