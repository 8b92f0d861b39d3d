// A member that asks for much and does not read it, over real connections: whose slots that costs.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "gossip/net/payload_queues.h"
#include "gossip/responder.h"
#include "tests/gossip/net/driver_peer.h"
#include "tests/gossip/net/puppet.h"

namespace starling::gossip {
namespace {

constexpr FragmentId kFragment{0};
constexpr std::size_t kDeltasMax = 4;

// The kernel takes no more than a frame or two on any connection to this port, from now on.
void narrow(std::uint16_t port) {
  const int bytes = 16384;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    for (const auto name : {::getsockname, ::getpeername}) {
      sockaddr_in end{};
      socklen_t size = sizeof end;
      if (name(descriptor, reinterpret_cast<sockaddr*>(&end), &size) != 0) continue;
      if (end.sin_family != AF_INET || end.sin_port != htons(port)) continue;
      ::setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
      ::setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    }
  }
}

struct Scene {
  DriverPeer anna{{.id = 1, .limits = {.deltas_of_peer_max = kDeltasMax}}};
  Puppet bert{2, 4};
  std::size_t free_least = SIZE_MAX;

  Scene() { bert.payloads_wanted = 0; }

  void turn() {
    anna.turn();
    bert.turn();
    narrow(anna.address().bulk_port);
    free_least = std::min(free_least, anna.mixer.slots_free());
  }
  template <class Done>
  bool run_until(Done&& done, double seconds = 10) {
    return eventually([&] { return turn(), done(); }, seconds);
  }
  void offer() {
    bert.join(anna.address());
    REQUIRE(run_until([&] { return sees(anna, 1); }));
    ExchangeKey key{bert.key(), {id_of(anna.address().key), 1}, 0};
    REQUIRE(run_until([&] {
      ++key.counter;
      bert.offer(key, kFragment);
      for (int i = 0; i < 20; ++i) turn();
      return bert.accepted.has_value();
    }));
  }
  // Every stripe again and again, each time for a delta of its own.
  void push_all() {
    constexpr std::uint32_t kPushes = TestMixer::kStripes * kAttemptsMax;
    std::uint32_t pushed = 0;
    REQUIRE(run_until([&] {
      const std::uint32_t stripe = pushed % TestMixer::kStripes;
      const auto attempt = static_cast<std::uint8_t>(pushed / TestMixer::kStripes);
      if (bert.push({*bert.accepted, kFragment, stripe, attempt})) ++pushed;
      return pushed == kPushes;
    }));
    REQUIRE(
        run_until([&] { return anna.driver().stats().orders_waiting == 0 && anna.mixer.idle(); }));
  }
};

// Reads pieces of nothing, as long as there are slots.
struct TestStates final : StatePort {
  static constexpr std::size_t kPieces = 4, kBytes = TestMixer::kPayloadBytes;
  static constexpr std::uint64_t kSnapshot = 7;

  void submit(StateOrder order, Bytes) override { orders.push_back(std::move(order)); }
  void work(AsioDriver& driver) {
    for (const StateOrder& order : std::exchange(orders, {})) {
      if (std::holds_alternative<PrepareSnapshot>(order)) {
        StateOffer offer;
        offer.snapshot = kSnapshot;
        REQUIRE(offer.manifest.try_push({}));
        driver.state(SnapshotReady{offer}, std::nullopt, 0);
      } else if (const auto* read = std::get_if<ReadPiece>(&order)) {
        auto slot = pool.try_acquire();
        const bool room = slot.has_value();
        driver.state(PieceReadDone{*read, room ? PieceRead::kRead : PieceRead::kNoRoom},
                     std::move(slot), room ? kBytes : 0);
      }
    }
  }

  CpuDevice device;
  SlotPool pool{host_memory(device, kPieces*(kBulkHeadBytes + kBytes)), kPieces};
  std::vector<StateOrder> orders;
};

}  // namespace

TEST_CASE("a newcomer that reads none of its pieces does not keep others from theirs") {
  constexpr std::uint32_t kAsked = 16;
  TestStates states;
  DriverPeer anna{{.id = 1, .limits = {.pieces_of_peer_max = 2}}};
  Puppet bert{2}, carl{3};
  bert.payloads_wanted = 0;
  anna.driver().keep_states(states);
  const auto turn = [&] {
    anna.turn();
    states.work(anna.driver());
    bert.turn();
    carl.turn();
    narrow(anna.address().bulk_port);
  };
  const auto run_until = [&](auto done) { return eventually([&] { return turn(), done(); }); };
  const auto ask = [&](Puppet& newcomer) {
    REQUIRE(run_until([&] {
      newcomer.say(StateRequest{});
      for (int i = 0; i < 20; ++i) turn();
      return newcomer.heard_of<StateOffer>() > 0;
    }));
    for (std::uint32_t piece = 0; piece < kAsked; ++piece) {
      newcomer.say(PieceRequest{TestStates::kSnapshot, piece, 0});
    }
  };
  bert.join(anna.address());
  carl.join(anna.address());
  REQUIRE(run_until([&] { return sees(anna, 2); }));
  for (int i = 0; i < 10; ++i) {  // until no buffer takes any more
    ask(bert);
    static_cast<void>(eventually([&] { return turn(), false; }, 0.1));
  }
  ask(carl);
  CHECK(run_until([&] { return carl.heard_of<Piece>() == kAsked; }));
  CHECK(bert.heard_of<Piece>() == 0);
}

TEST_CASE("whoever reads none of the deltas it asks for holds only so many slots, ZeroMQ's too") {
  Scene scene;
  scene.offer();
  scene.push_all();
  // One is at hand while it finds no room.
  CHECK(scene.free_least >= TestMixer::kSlots - kDeltasMax - 1);
  CHECK(scene.anna.mixer.slots_free() >= TestMixer::kSlots - kDeltasMax);
  CHECK(!scene.anna.mixer.slots_home());
  CHECK(scene.anna.driver().stats().frames_dropped > 0);
}

TEST_CASE("whoever keeps a payload for too long loses its connections, and the slots come home") {
  Scene scene;
  scene.offer();
  scene.push_all();
  REQUIRE(!scene.anna.mixer.slots_home());
  scene.anna.ahead += PayloadQueues::kStuckMin / 2;
  bool drips = false;
  SUBCASE("reading nothing") {}
  SUBCASE("reading some now and then") { drips = true; }
  if (drips) {
    const std::size_t before = scene.anna.mixer.slots_free();
    scene.bert.payloads_wanted = 3;
    REQUIRE(scene.run_until([&] { return scene.bert.payloads_wanted <= 0; }));
    static_cast<void>(scene.run_until([&] { return scene.anna.mixer.slots_free() > before; }, 1));
    scene.push_all();
  }
  REQUIRE(!scene.anna.mixer.slots_home());
  static_cast<void>(scene.run_until([&] { return scene.anna.mixer.slots_home(); }, 0.5));
  CHECK(scene.anna.driver().link_stats().callers.idle_readers == 0);
  scene.anna.ahead += PayloadQueues::kStuckMin / 2 + std::chrono::seconds(1);
  CHECK(scene.run_until([&] { return scene.anna.mixer.slots_home(); }));
  CHECK(scene.anna.driver().link_stats().callers.idle_readers == 1);
  CHECK(scene.anna.driver().stats().frames_waiting == 0);
}

TEST_CASE("whoever is let go while it keeps payloads loses the connections that hold them") {
  const Identity anna_key = test_identity(11), bert_key = test_identity(22);
  constexpr std::size_t kBytes = 64 * 1024, kSlots = 8;
  CpuDevice device;
  SlotPool pool(host_memory(device, kSlots * (kBulkHeadBytes + kBytes)), kSlots);
  ZmqLink bert = open_link(bert_key);
  ZmqLink anna = open_link(anna_key);
  REQUIRE(connect(anna, bert.local_address()));
  REQUIRE(connect(bert, anna.local_address(), false));
  // Its own connections are the only way back.
  REQUIRE(anna.try_send_control(bert_key.id(), ping(1)) == Sending::kSent);
  REQUIRE(wait_for_arrival(bert, anna).has_value());
  std::optional<SlotLease> slot;
  std::uint32_t sent = 0;
  static_cast<void>(eventually(
      [&] {
        bert.flush(steady_now());
        anna.flush(steady_now());
        narrow(bert.local_address().bulk_port);
        static_cast<void>(bert.try_receive(steady_now()));
        if (bert.stats().bulk.frames_in == 0) {
          auto first = pool.try_acquire();
          static_cast<void>(anna.try_send_bulk(bert_key.id(), Push{}, first, 8));
        }
        if (!slot) slot = pool.try_acquire();
        if (!slot) return true;
        StripeRef ref;
        ref.stripe = sent;
        sent += bert.try_send_bulk(anna_key.id(), Delta{ref}, slot, kBytes) == Sending::kSent;
        return false;
      },
      5));
  slot.reset();
  const auto held = bert.held_payloads();
  REQUIRE(held.size() == 1);
  CHECK(held[0].to == anna_key.id());
  CHECK(held[0].deltas > 1);
  CHECK(held[0].frames + pool.free_count() == kSlots);
  bert.disconnect(anna_key.id());
  CHECK(eventually([&] {
    static_cast<void>(bert.try_receive(steady_now()));
    return pool.free_count() == kSlots;
  }));
}

}  // namespace starling::gossip
