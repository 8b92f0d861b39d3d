// Two peers that nobody can dial, and others that volunteer to forward between them, over real
// sockets.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "tests/gossip/net/driver_peer.h"

namespace starling::gossip {
namespace {

constexpr FragmentId kFragment{0};

PeerSetup deaf(std::uint8_t id, std::int64_t value) {
  PeerSetup setup{.id = id, .value = value};
  setup.listens = false;
  return setup;
}

PeerSetup volunteer(std::uint8_t id) {
  PeerSetup setup{.id = id, .value = 0};
  setup.relay.volunteer = true;
  return setup;
}

PeerId id(std::uint8_t number) { return test_identity(number).id(); }

std::uint64_t completed_with(const DriverPeer& peer, PeerId partner) {
  return static_cast<std::uint64_t>(std::count_if(
      peer.events.ended.begin(), peer.events.ended.end(), [&](const ExchangeEnded& event) {
        const bool theirs =
            event.exchange.initiator.id == partner || event.exchange.responder.id == partner;
        return theirs && event.outcome == Outcome::kCompleted;
      }));
}

bool settled(DriverPeer& peer) {
  return peer.driver().core().exchanges_open() == 0 &&
         peer.driver().core().stripes_unsettled() == 0;
}

// A stripe whose outcome only the killed relay knew stays open for long.
bool idle(DriverPeer& peer) { return peer.driver().core().exchanges_open() == 0; }

CoreStats stats_of(DriverPeer& peer) { return peer.driver().core().stats(); }

// Turns all of `peers` while `offering` offer, until the first of these has completed so many more
// with `partner`.
bool exchange(std::initializer_list<DriverPeer*> peers, const std::vector<DriverPeer*>& offering,
              PeerId partner, std::uint64_t count) {
  const std::uint64_t before = completed_with(*offering[0], partner);
  return run_until(
      peers,
      [&] {
        for (DriverPeer* peer : offering) {
          if (idle(*peer)) peer->driver().publish(kFragment, {});
        }
        return completed_with(*offering[0], partner) >= before + count;
      },
      30);
}

bool has_relay(DriverPeer& peer, std::uint64_t count) { return stats_of(peer).relays == count; }

}  // namespace

TEST_CASE("two peers that nobody can dial exchange through one that volunteers, and with it") {
  DriverPeer relay(volunteer(1));
  DriverPeer anna(deaf(2, 800));
  DriverPeer bert(deaf(3, 0));
  join(anna, relay.address());
  join(bert, relay.address());
  const std::int64_t sum = anna.mixer.sum() + bert.mixer.sum() + relay.mixer.sum();
  REQUIRE(
      run_until({&relay, &anna, &bert}, [&] { return has_relay(anna, 1) && has_relay(bert, 1); }));
  CHECK(stats_of(relay).relay_holders == 2);
  REQUIRE(run_until({&relay, &anna, &bert}, [&] {
    return stats_of(anna).partners_relayed == 1 && stats_of(bert).partners_relayed == 1;
  }));
  CHECK(exchange({&relay, &anna, &bert}, {&anna, &bert}, id(3), 3));
  // From now on Anna alone offers: two that always do would have each other declined.
  REQUIRE(run_until({&relay, &anna, &bert}, [&] { return settled(anna) && settled(bert); }));
  CHECK(exchange({&relay, &anna, &bert}, {&anna}, id(1), 3));
  CHECK(run_until({&relay, &anna, &bert},
                  [&] { return settled(anna) && settled(bert) && settled(relay); }));
  CHECK(anna.mixer.sum() + bert.mixer.sum() + relay.mixer.sum() == sum);
  CHECK(run_until({&relay, &anna, &bert},
                  [&] { return anna.mixer.slots_home() && bert.mixer.slots_home(); }));
  const RelayStats& relayed = relay.driver().link_stats().relayed;
  CHECK(relayed.frames > 3 * 2 * TestMixer::kStripes);
  CHECK(relayed.payload_bytes > 3 * 2 * TestMixer::kStripes * TestMixer::kPayloadBytes);
  CHECK(relayed.over_rate == 0);
  CHECK(relayed.lost == 0);
  for (DriverPeer* peer : {&relay, &anna, &bert}) {
    CHECK(peer->events.rejected.empty());
    CHECK(peer->driver().link_stats().malformed == 0);
    CHECK(peer->driver().link_stats().forged == 0);
  }
  // Everything that came through the relay was opened.
  const auto& envelopes = anna.driver().link_stats().relayed.envelopes;
  CHECK(envelopes[0] > 0);
  for (std::size_t fault = 1; fault < kEnvelopeFaults; ++fault) CHECK(envelopes[fault] == 0);
}

TEST_CASE("when their relay is killed two peers go on through the other volunteer") {
  auto first = std::make_unique<DriverPeer>(volunteer(1));
  DriverPeer second(volunteer(4));
  DriverPeer anna(deaf(2, 800));
  DriverPeer bert(deaf(3, 0));
  join(second, first->address());
  join(anna, first->address());
  join(bert, second.address());
  REQUIRE(run_until({first.get(), &second, &anna, &bert},
                    [&] { return has_relay(anna, 2) && has_relay(bert, 2); }));
  REQUIRE(exchange({first.get(), &second, &anna, &bert}, {&anna, &bert}, id(3), 2));
  first.reset();
  CHECK(exchange({&second, &anna, &bert}, {&anna, &bert}, id(3), 5));
  CHECK(run_until({&second, &anna, &bert}, [&] { return has_relay(anna, 1); }));
  CHECK(second.driver().link_stats().relayed.frames > 0);
  CHECK(run_until(
      {&second, &anna, &bert}, [&] { return idle(anna) && idle(bert); }, 20));
  CHECK(anna.events.rejected.empty());
  CHECK(bert.events.rejected.empty());
}

}  // namespace starling::gossip
