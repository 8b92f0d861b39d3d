// Who forwards for whom, and how two that nobody can dial find a way to each other.
#include "gossip/relay_choice.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "gossip/relay_host.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// Volunteers 1 .. volunteers, and walled peers from 11 on. All join through peer 1.
struct World : CoreBench {
  explicit World(std::uint64_t volunteers, std::uint64_t walled_peers = 2) {
    config.relay.volunteer = true;
    for (std::uint64_t id = 1; id <= volunteers; ++id) start(id);
    config.relay.volunteer = false;
    walled = true;
    for (std::uint64_t i = 0; i < walled_peers; ++i) start(11 + i);
    walled = false;
    for (std::uint64_t id = 2; id <= volunteers; ++id) join(id, 1);
    for (std::uint64_t i = 0; i < walled_peers; ++i) join(11 + i, 1);
  }
  std::vector<std::uint64_t> relays_of(std::uint64_t id) {
    std::vector<std::uint64_t> ids;
    for (const PeerId relay : core(id).self().relays) ids.push_back(relay.value);
    std::sort(ids.begin(), ids.end());
    return ids;
  }
  std::uint64_t completed(std::uint64_t id, std::uint64_t partner) {
    const auto& ended = node(id).ended;
    return static_cast<std::uint64_t>(
        std::count_if(ended.begin(), ended.end(), [&](const ExchangeEnded& event) {
          const bool with = event.exchange.initiator.id == PeerId{partner} ||
                            event.exchange.responder.id == PeerId{partner};
          return with && event.outcome == Outcome::kCompleted;
        }));
  }
  // Publishes at `id` until it has completed `count` more with `partner`.
  bool exchanges(std::uint64_t id, std::uint64_t partner, std::uint64_t count) {
    const std::uint64_t before = completed(id, partner);
    for (int round = 0; round < 100 && completed(id, partner) < before + count; ++round) {
      publish(id, static_cast<std::uint16_t>(round % 2));
      run(seconds(2));
    }
    return completed(id, partner) >= before + count;
  }
  std::uint64_t holders(std::uint64_t id) { return core(id).stats().relay_holders; }
};

}  // namespace

TEST_CASE("two peers that nobody can dial are partners through a volunteer") {
  World world(1);
  world.run(seconds(60));
  CHECK(world.relays_of(11) == std::vector<std::uint64_t>{1});
  CHECK(world.holders(1) == 2);
  CHECK(world.core(11).stats().partners == 2);
  CHECK(world.core(11).stats().partners_relayed == 1);
  CHECK(world.core(1).stats().partners_relayed == 0);
  CHECK(world.exchanges(11, 12, 3));
  CHECK(world.exchanges(11, 1, 3));
  check_no_lease(world, 1);
}

TEST_CASE("who has slept longer than its relays promised asks them again, and keeps them") {
  World world(2);
  world.run(seconds(60));
  const auto before = world.relays_of(11);
  REQUIRE(before.size() == 2);
  auto asleep = std::move(world.node(11).core);
  world.run(minutes(12));
  world.node(11).core = std::move(asleep);
  world.core(11).on_deadline(world.now);
  for (int i = 0; i < 60; ++i) {
    world.run(seconds(1));
    CHECK(world.relays_of(11) == before);
  }
  CHECK(world.holders(1) == 2);
  CHECK(world.exchanges(11, 12, 1));
}

TEST_CASE("where nobody volunteers they are no partners, and nobody is believed dead") {
  World world(0);
  world.start(1);
  world.join(11, 1);
  world.join(12, 1);
  world.run(minutes(10));
  CHECK(world.core(11).stats().relays == 0);
  CHECK(world.core(11).stats().partners == 1);
  CHECK(world.core(11).stats().peers_alive == 2);
  CHECK(world.core(11).stats().rounds_skipped == 0);
}

TEST_CASE("an owner who wants no relay has none, and keeps his other partners") {
  World world(1, 0);
  world.config.relay.use = false;
  world.walled = true;
  world.start(11);
  world.start(12);
  world.join(11, 1);
  world.join(12, 1);
  world.run(seconds(60));
  CHECK(world.holders(1) == 0);
  CHECK(world.core(11).stats().partners == 1);
}

TEST_CASE("a peer that can be dialled asks for no relay, and one that turns out to be gives back") {
  World world(2, 1);
  world.run(seconds(30));
  CHECK(world.relays_of(2).empty());
  CHECK(world.holders(1) == 1);
  CHECK(world.relays_of(11).size() == 2);
  world.node(11).walled = false;
  world.core(11).on_reached(world.now, Reach::kAnywhere);
  world.run(seconds(10));
  CHECK(world.holders(1) == 0);
  CHECK(world.holders(2) == 0);
  CHECK(world.relays_of(11).empty());
  CHECK(world.node(11).relay_changes.size() == 4);
}

TEST_CASE("a peer that listens first waits whether somebody reaches it") {
  World world(1, 0);
  world.walled = true;
  world.start(11);
  world.join(11, 1);
  world.run(seconds(9));
  CHECK(world.holders(1) == 0);
  world.run(seconds(3));
  CHECK(world.holders(1) == 1);
}

TEST_CASE("a relay that dies is replaced, and everybody is told") {
  World world(4);
  world.run(seconds(60));
  const auto before = world.relays_of(11);
  REQUIRE(before.size() == 2);
  REQUIRE(world.exchanges(12, 11, 2));
  world.crash(before[0]);
  world.run(seconds(60));
  const auto after = world.relays_of(11);
  CHECK(after.size() == 2);
  CHECK(std::count(after.begin(), after.end(), before[0]) == 0);
  for (const PeerRecord& record : world.core(12).peers()) {
    if (record.key.id == PeerId{11}) CHECK(record.relays == world.core(11).self().relays);
  }
  CHECK(world.exchanges(12, 11, 3));
  CHECK(world.exchanges(11, 12, 3));
}

TEST_CASE("exchanges go on through the relay that is left") {
  World world(2);
  world.run(seconds(60));
  REQUIRE(world.relays_of(11).size() == 2);
  REQUIRE(world.exchanges(11, 12, 2));
  world.crash(2);
  CHECK(world.exchanges(11, 12, 5));
  CHECK(world.core(11).stats().relays == 1);
}

TEST_CASE("a volunteer that leaves is not waited for") {
  World world(3);
  world.run(seconds(60));
  const auto before = world.relays_of(11);
  REQUIRE(before.size() == 2);
  const std::uint64_t leaver = before[1];
  world.core(leaver).on_leave(world.now);
  world.settle();
  world.crash(leaver);
  world.run(seconds(10));
  const auto after = world.relays_of(11);
  CHECK(after.size() == 2);
  CHECK(std::count(after.begin(), after.end(), leaver) == 0);
}

TEST_CASE("peers with different relays reach each other, and one relay of the two is enough") {
  World world(0, 0);
  world.config.relay.volunteer = true;
  world.config.relay.holders_max = 1;
  world.start(1);
  world.start(2);
  world.config.relay.volunteer = false;
  world.walled = true;
  world.start(11);
  world.start(12);
  world.join(2, 1);
  world.join(11, 1);
  world.run(seconds(30));
  // Both volunteers serve the first; one of them is then taken from it.
  REQUIRE(world.relays_of(11).size() == 2);
  world.deliver({PeerId{11}, PeerId{2}, RelayAsk{.wanted = false}});
  world.join(12, 2);
  world.run(seconds(30));
  REQUIRE(world.relays_of(12) == std::vector<std::uint64_t>{2});
  world.deliver({PeerId{2}, PeerId{11}, RelayDecline{600'000}});
  world.run(seconds(60));
  REQUIRE(world.relays_of(11) == std::vector<std::uint64_t>{1});
  CHECK(world.exchanges(11, 12, 3));
  CHECK(world.exchanges(12, 11, 3));
  // Without its own relay the one finds the way through the other's, and is answered on it.
  world.crash(2);
  world.run(seconds(60));
  CHECK(world.relays_of(12).empty());
  std::set<PeerId> used;
  world.passes = [&](const CoreBench::Letter& letter) {
    if (letter.through != PeerId{}) used.insert(letter.through);
    return true;
  };
  CHECK(world.exchanges(11, 12, 3));
  CHECK(world.exchanges(12, 11, 3));
  CHECK(used == std::set{PeerId{1}});
}

TEST_CASE("a volunteer serves so many and no more, and those it turns down ask later") {
  World world(0, 0);
  world.config.relay.volunteer = true;
  world.config.relay.holders_max = 3;
  world.start(1);
  world.config.relay.volunteer = false;
  world.walled = true;
  for (std::uint64_t id = 11; id <= 15; ++id) world.start(id);
  std::uint64_t asked = 0;
  world.passes = [&](const CoreBench::Letter& letter) {
    asked += is<RelayAsk>(letter.message);
    return true;
  };
  for (std::uint64_t id = 11; id <= 15; ++id) world.join(id, 1);
  world.run(seconds(60));
  CHECK(world.holders(1) == 3);
  CHECK(world.node(1).forwards_for.size() == 3);
  CHECK(asked == 5);
  // One goes: its place is taken by one of the others when they ask again.
  const std::uint64_t gone = world.node(1).forwards_for.begin()->value;
  world.core(gone).on_leave(world.now);
  world.settle();
  CHECK(world.holders(1) == 2);
  world.run(RelayHost::kRetryFull + seconds(5));
  CHECK(world.holders(1) == 3);
}

TEST_CASE("a promise outlives a mistaken burial, and gives way where there is no room") {
  World world(1, 1);
  world.run(seconds(60));
  REQUIRE(world.holders(1) == 1);
  bool cut = true;
  world.passes = [&cut](const CoreBench::Letter& letter) {
    return !cut || (letter.from != PeerId{11} && letter.to != PeerId{11});
  };
  world.run(seconds(60));
  REQUIRE(world.core(1).stats().partners == 0);
  cut = false;
  world.run(seconds(30));
  REQUIRE(world.core(1).stats().partners == 1);
  CHECK(world.holders(1) == 1);
  CHECK(world.node(1).relay_changes.size() == 1);

  World full(0, 0);
  full.config.relay.volunteer = true;
  full.config.relay.holders_max = 1;
  full.start(1);
  full.config.relay.volunteer = false;
  full.walled = true;
  full.start(11);
  full.join(11, 1);
  full.run(seconds(60));
  REQUIRE(full.node(1).forwards_for == std::set{PeerId{11}});
  full.crash(11);
  full.run(minutes(2));
  full.start(12);
  full.join(12, 1);
  full.run(seconds(60));
  CHECK(full.node(1).forwards_for == std::set{PeerId{12}});
}

TEST_CASE("a promise is renewed in time, and ends by itself where nobody does") {
  World world(1, 1);
  world.run(minutes(60));
  CHECK(world.holders(1) == 1);
  CHECK(world.node(1).relay_changes.size() == 1);  // never lost in between
  // From now on its asking is lost, though it is alive and heard.
  world.passes = [](const CoreBench::Letter& letter) { return !is<RelayAsk>(letter.message); };
  world.run(RelayHost::kLease + seconds(5));
  CHECK(world.holders(1) == 0);
  CHECK(world.relays_of(11).empty());
}

TEST_CASE("one that does not answer is left alone for a while, and another is asked") {
  World world(2, 0);
  world.walled = true;
  world.start(11);
  std::map<PeerId, int> asked;
  world.passes = [&](const CoreBench::Letter& letter) {
    if (!is<RelayAsk>(letter.message)) return true;
    ++asked[letter.to];
    return letter.to != PeerId{1};
  };
  world.join(11, 1);
  world.run(seconds(60));
  CHECK(world.relays_of(11) == std::vector<std::uint64_t>{2});
  CHECK(asked[PeerId{1}] == 1);
  world.run(minutes(2));
  CHECK(asked[PeerId{1}] <= 3);
}

TEST_CASE("a relay that loses everything accuses nobody of anything") {
  World world(1);
  world.run(seconds(60));
  REQUIRE(world.core(11).stats().partners_relayed == 1);
  world.passes = [](const CoreBench::Letter& letter) { return letter.through == PeerId{}; };
  for (const std::uint64_t id : {1, 11, 12}) world.node(id).changed.clear();
  world.run(minutes(10));
  for (const std::uint64_t id : {1, 11, 12}) {
    CAPTURE(id);
    CHECK(world.node(id).changed.empty());
    CHECK(world.core(id).stats().peers_alive == 2);
    CHECK(world.core(id).stats().health_score == 0);
  }
  // Nobody is offered anything that cannot arrive.
  CHECK(world.core(11).stats().partners_relayed == 0);
  const std::uint64_t offers = world.core(11).stats().offers_timed_out;
  CHECK(world.exchanges(11, 1, 3));
  CHECK(world.core(11).stats().offers_timed_out == offers);
  pass_all(world);
  CHECK(world.exchanges(11, 12, 1));
}

TEST_CASE("while a volunteer's exchanges rest it forwards for nobody") {
  World world(1);
  world.run(seconds(60));
  REQUIRE(world.holders(1) == 2);
  world.core(1).on_exchanges_allowed(world.now, false);
  world.run(seconds(5));
  CHECK(world.holders(1) == 0);
  CHECK(world.node(1).forwards_for.empty());
  CHECK(world.core(11).stats().relays == 0);
  world.core(1).on_exchanges_allowed(world.now, true);
  world.run(RelayHost::kRetryFull + seconds(10));
  CHECK(world.holders(1) == 2);
}

TEST_CASE("promises that nobody asked for, and promises of nothing, change nothing") {
  World world(2, 1);
  world.run(seconds(30));
  const auto before = world.relays_of(11);
  const std::uint64_t refused = world.core(2).stats().messages_refused;
  world.deliver({PeerId{1}, PeerId{2}, RelayGrant{600'000}});
  CHECK(world.core(2).stats().messages_refused == refused + 1);
  CHECK(world.core(2).stats().relays == 0);
  world.deliver({PeerId{2}, PeerId{11}, RelayGrant{0}});
  world.deliver({PeerId{2}, PeerId{11}, RelayGrant{UINT32_MAX}});
  world.run(seconds(30));
  CHECK(world.relays_of(11) == before);
  // Whoever asks needs it: that it cannot be dialled any more may not be known here yet.
  world.deliver({PeerId{2}, PeerId{1}, RelayAsk{}});
  CHECK(world.holders(1) == 2);
  world.deliver({PeerId{2}, PeerId{1}, RelayAsk{.wanted = false}});
  CHECK(world.holders(1) == 1);
}

TEST_CASE("a restarted peer is reached again, in its new life") {
  World world(1);
  world.run(seconds(60));
  REQUIRE(world.exchanges(11, 12, 1));
  world.crash(12);
  world.run(seconds(5));
  world.walled = true;
  world.start(12, 2);
  world.join(12, 1);
  world.run(seconds(60));
  CHECK(world.core(11).stats().partners_relayed == 1);
  CHECK(world.exchanges(11, 12, 2));
  CHECK(world.exchanges(12, 11, 2));
}

TEST_CASE("a relay that lets messages through and no payloads is given up for the other") {
  World world(2);
  world.run(seconds(60));
  REQUIRE(world.relays_of(12).size() == 2);
  REQUIRE(world.exchanges(11, 12, 1));
  const PeerId full = world.node(11).paths[PeerId{12}].relay;
  world.passes = [full](const CoreBench::Letter& letter) {
    return letter.through != full || !is_bulk(letter.message);
  };
  CHECK(world.exchanges(11, 12, 3));
  CHECK(world.exchanges(12, 11, 3));
}

}  // namespace starling::gossip
