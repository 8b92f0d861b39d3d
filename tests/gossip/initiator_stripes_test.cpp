#include "gossip/initiator.h"

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

TEST_CASE("no more stripes than the window are under way, and one while the pace is unknown") {
  CoreBench bench;
  bench.stripes = {40};
  bench.config.window = 3;
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) { return !is<Delta>(letter.message); };
  bench.publish(1, 0);
  CHECK(std::count_if(bench.held.begin(), bench.held.end(),
                      [](const Letter& letter) { return is<Delta>(letter.message); }) == 1);
  pass_all(bench);
  bench.run(minutes(2));
  check_no_lease(bench, 2);
  int pushed = 0;
  bench.passes = [&](const Letter& letter) {
    pushed += is<Push>(letter.message) ? 1 : 0;
    return !is<Delta>(letter.message);
  };
  bench.publish(1, 0);
  CHECK(pushed == 3);
}

TEST_CASE("a stripe whose commit is under way makes room, up to twice the window in all") {
  CoreBench bench;
  bench.stripes = {40};
  bench.config.window = 3;
  bench.start_swarm(2);
  bench.publish(1, 0);
  bench.run(minutes(2));
  check_no_lease(bench, 2);
  const auto before = bench.core(1).stats().stripes_applied;
  int pushed = 0;
  bench.passes = [&](const Letter& letter) {
    pushed += is<Push>(letter.message) ? 1 : 0;
    return !is<Committed>(letter.message);
  };
  bench.publish(1, 0);
  CHECK(pushed == 6);
  CHECK(bench.core(1).stats().stripes_applied == before + 6);
  CHECK(bench.core(2).stats().rejected[static_cast<std::size_t>(RejectReason::kOverrun)] == 0);
  pass_all(bench);
  bench.run(minutes(2));
  CHECK(bench.core(1).stats().stripes_applied == before + 40);
  check_no_lease(bench, 2);
}

TEST_CASE("a lost push is pushed again after the timeout") {
  CoreBench bench;
  bench.start_swarm(2);
  lose<Push>(bench, 1);
  bench.publish(1, 0);
  CHECK(bench.core(1).exchanges_open() == 1);
  // Nothing was measured, and small payloads need not wait for the longest timeout.
  bench.run(bench.config.silence_min + seconds(1));
  check_same_applied(bench.node(1), bench.node(2), 3);
  check_no_lease(bench, 2);
}

TEST_CASE("a lost commit or acknowledgement is said again") {
  for (const bool commit : {true, false}) {
    CoreBench bench;
    bench.start_swarm(2);
    commit ? lose<Commit>(bench, 2) : lose<Committed>(bench, 2);
    bench.publish(1, 0);
    CHECK(bench.core(1).stripes_unsettled() > 0);
    bench.run(seconds(15));
    check_same_applied(bench.node(1), bench.node(2), 3);
    check_no_lease(bench, 2);
  }
}

TEST_CASE("a partner that stops pushing back is given up and nothing is applied alone") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) { return !is<Delta>(letter.message); };
  bench.publish(1, 0);
  bench.run(bench.config.stripe_timeout * 4);
  check_same_applied(bench.node(1), bench.node(2), 0);
  check_no_lease(bench, 2);
  REQUIRE(bench.node(1).ended.size() == 1);
  CHECK(bench.node(1).ended[0].outcome == Outcome::kTimedOut);
}

TEST_CASE("an initiator that dies before it applies leaves the other unchanged") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) { return !is<Delta>(letter.message); };
  bench.publish(1, 0);
  bench.crash(1);
  bench.run(minutes(1));
  CHECK(bench.core(2).exchanges_open() == 0);
  bench.run(bench.config.responder_gives_up + minutes(1));
  CHECK(bench.node(2).net_applied.empty());
  REQUIRE(bench.node(2).ended.size() == 1);
}

TEST_CASE("an initiator restored with the deed settles it with the responder") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) { return !is<Commit>(letter.message); };
  bench.publish(1, 0);
  const std::vector<LedgerRow> rows = bench.node(1).ledger.rows();
  REQUIRE(rows.size() == 3);
  bench.crash(1);
  bench.run(minutes(2));
  pass_all(bench);
  bench.start(1, 2, {rows, {}});
  bench.join(1, 2);
  bench.run(minutes(1));
  check_same_applied(bench.node(1), bench.node(2), 3);
  CHECK(bench.node(1).ledger.rows().empty());
  check_no_lease(bench, 2);
}

TEST_CASE("an initiator restored without the deed tells the responder to drop it") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.exchange_all(1, 0);
  bench.node(2).net_applied.clear();
  bench.passes = [](const Letter& letter) { return !is<Delta>(letter.message); };
  bench.publish(1, 0);
  bench.crash(1);
  bench.run(seconds(5));
  pass_all(bench);
  bench.start(1, 2);
  bench.join(1, 2);
  bench.run(minutes(3));
  CHECK(bench.core(2).stats().stripes_abandoned == 3);
  CHECK(bench.node(2).net_applied.empty());
}

TEST_CASE("an orphan is counted when the responder never comes back") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.passes = [](const Letter& letter) { return !is<Commit>(letter.message); };
  bench.publish(1, 0);
  bench.crash(2);
  bench.run(bench.config.initiator_gives_up + minutes(2));
  CHECK(bench.core(1).stats().stripes_orphaned == 3);
  CHECK(bench.core(1).stripes_unsettled() == 0);
}

TEST_CASE("deltas in doubt are as many as a model has stripes, within bounds") {
  const GossipConfig config;
  const std::size_t least = 8 * owed_max(config);
  CHECK(in_doubt_max(config, {}) == least);
  CHECK(in_doubt_max(config, std::vector<std::uint32_t>{3}) == least);
  CHECK(in_doubt_max(config, std::vector<std::uint32_t>{300, 400}) == 700);
  CHECK(in_doubt_max(config, std::vector<std::uint32_t>{100'000}) == Ledger::kInitiatorRowsMax);
  GossipConfig wide;
  wide.window = 32;
  wide.initiated_max = 4;
  CHECK(in_doubt_max(wide, {}) == 8 * 2 * 5 * 32);
}

TEST_CASE("who owes answers about many stripes is not asked before it gave them") {
  CoreBench bench;
  bench.stripes = {40, 40};
  bench.start_swarm(3);
  bench.exchange_all(1, 0);
  bench.run(minutes(2));
  int offers = 0;
  bench.passes = [&](const Letter& letter) {
    const bool from_two = letter.from == PeerId{2};
    offers += is<Offer>(letter.message) && letter.to == PeerId{2} ? 1 : 0;
    return !(from_two && is<Committed>(letter.message));
  };
  for (int round = 0; round < 40; ++round) {
    bench.publish(1, 0);
    bench.publish(1, 1);
    bench.run(minutes(1));
  }
  const std::size_t owed = owed_max(bench.config);
  CHECK(bench.core(1).stripes_unsettled() >= owed);
  CHECK(bench.core(1).stripes_unsettled() < owed + 2U * bench.config.window);
  const int asked = offers;
  CHECK(asked > 0);
  CHECK(asked < 10);
  pass_all(bench);
  bench.run(minutes(1));
  CHECK(bench.core(1).stripes_unsettled() == 0);
  bench.passes = [&](const Letter& letter) {
    offers += is<Offer>(letter.message) && letter.to == PeerId{2} ? 1 : 0;
    return true;
  };
  for (int round = 0; round < 10; ++round) {
    bench.publish(1, 0);
    bench.run(minutes(1));
  }
  CHECK(offers > asked);
}

TEST_CASE("a restored ledger beyond every bound is cut to it") {
  CoreBench bench;
  std::vector<LedgerRow> rows;
  for (std::uint32_t stripe = 0; stripe < Ledger::kRowsMax; ++stripe) {
    const ExchangeKey key{{PeerId{1}, 1}, {PeerId{2}, 1}, 1};
    rows.push_back({{key, FragmentId{0}, stripe, 0}, Role::kInitiator});
  }
  bench.start(1, 2, {rows, {}});
  CHECK(bench.core(1).stripes_unsettled() == Ledger::kInitiatorRowsMax);
  bench.core(1).assert_invariants();
}

TEST_CASE("partners that never answer leave places for stripes of those that do") {
  constexpr std::uint64_t kPeers = 12, kSound = 2;
  CoreBench bench;
  bench.stripes = {40, 40};
  bench.start_swarm(kPeers);
  for (int round = 0; round < 20; ++round) {
    bench.exchange_all(1, 0);
    bench.exchange_all(1, 1);
  }
  bench.passes = [](const Letter& letter) {
    // The others have rounds, too, but begin nothing.
    if (is<Offer>(letter.message)) return letter.from.value == 1;
    const bool sound = letter.from.value == 1 || letter.from.value > kPeers - kSound;
    return sound || !is<Committed>(letter.message);
  };
  const auto rounds = [&](int count) {
    bench.node(1).ended.clear();
    for (int round = 0; round < count; ++round) {
      for (std::uint64_t id = 1; id <= kPeers; ++id) {
        bench.publish(id, 0);
        bench.publish(id, 1);
      }
      bench.run(seconds(30));
    }
    const auto& ended = bench.node(1).ended;
    return std::count_if(ended.begin(), ended.end(), [](const ExchangeEnded& event) {
      return event.role == Role::kInitiator && event.outcome == Outcome::kCompleted;
    });
  };
  static_cast<void>(rounds(40));
  CHECK(rounds(20) >= 10);
}

}  // namespace starling::gossip
