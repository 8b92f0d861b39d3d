// A member that says far more than anybody reads, over real connections.
#include <doctest/doctest.h>

#include "gossip/net/link_inbox.h"
#include "tests/gossip/net/driver_peer.h"

namespace starling::gossip {
namespace {

void take_turns(DriverPeer& anna, ZmqLink& bert) {
  anna.turn();
  bert.flush(steady_now());
  while (bert.try_receive(steady_now())) {
  }
}

// A link whose peer Anna has met.
ZmqLink open_member(DriverPeer& anna, const Identity& identity) {
  ZmqLink bert = open_link(identity);
  const RunIdentity run{.run = 1, .model = 1, .layout = 1};
  PeerRecord self{.key = record_key({identity.id(), 1}, 0), .address = bert.local_address()};
  self.signature = IdentitySeal(identity).sign(sealed_text(run.run, self));
  REQUIRE(bert.greet(anna.address(), Hello{self, run}, {}));
  REQUIRE(connect(bert, anna.address()));
  REQUIRE(eventually([&] { return take_turns(anna, bert), sees(anna, 1); }));
  return bert;
}

}  // namespace

TEST_CASE("a payload is read soon, however many small messages wait before it") {
  constexpr std::size_t kBytes = 1000;
  CpuDevice device;
  SlotPool pool(host_memory(device, kBulkHeadBytes + kBytes + 64), 1);
  ZmqLink bert = open_link(test_identity(2));
  {
    ZmqLink anna = open_link(test_identity(1));
    REQUIRE(connect(anna, bert.local_address()));
    const PeerId to = test_identity(2).id();
    const auto send_payload = [&] {
      auto slot = pool.try_acquire();
      return slot && anna.try_send_bulk(to, Push{}, slot, kBytes) == Sending::kSent;
    };
    // Both lanes stand.
    REQUIRE(anna.try_send_control(to, ping(1)) == Sending::kSent);
    REQUIRE(wait_for_arrival(bert, anna).has_value());
    REQUIRE(eventually([&] {
      anna.flush(steady_now());
      static_cast<void>(bert.try_receive(steady_now()));
      return send_payload();
    }));
    REQUIRE(eventually([&] {
      static_cast<void>(bert.try_receive(steady_now()));
      return bert.stats().bulk.frames_in == 1;
    }));

    constexpr std::uint64_t kPings = 200;
    for (std::uint64_t i = 0; i < kPings; ++i) {
      REQUIRE(anna.try_send_control(to, ping(i)) == Sending::kSent);
    }
    REQUIRE(eventually(send_payload));
    static_cast<void>(eventually([] { return false; }, 0.3));  // for all of them to come
    const std::uint64_t before = bert.stats().control.frames_in;
    REQUIRE(eventually([&] {
      static_cast<void>(bert.try_receive(steady_now()));
      return bert.stats().bulk.frames_in == 2;
    }));
    CHECK(bert.stats().control.frames_in - before <= Inbox::kControlTurnsMax + 1);
    CHECK(eventually([&] {
      static_cast<void>(bert.try_receive(steady_now()));
      return bert.stats().control.frames_in == before + kPings;
    }));
  }
  CHECK(eventually([&] { return pool.free_count() == 1; }));
}

TEST_CASE("whoever floods is muted, loses its connections, and brings no payloads meanwhile") {
  constexpr std::size_t kBytes = 1000, kSlots = 4;
  CpuDevice device;
  SlotPool pool(host_memory(device, kSlots * (kBulkHeadBytes + kBytes + 64)), kSlots);
  DriverPeer anna({.id = 1});
  const Identity identity = test_identity(2);
  {
    ZmqLink bert = open_member(anna, identity);
    const PeerId to = id_of(anna.address().key);
    const auto turn = [&] { take_turns(anna, bert); };
    const auto send_payload = [&] {
      turn();
      auto slot = pool.try_acquire();
      return slot && bert.try_send_bulk(to, Piece{}, slot, kBytes) == Sending::kSent;
    };
    const LaneStats& payloads = anna.driver().link_stats().bulk;
    REQUIRE(eventually(send_payload));
    REQUIRE(eventually([&] { return turn(), payloads.frames_in == 1; }));
    const auto flood = [&] {
      for (int i = 0; i < 100; ++i) static_cast<void>(bert.try_send_control(to, ping(1)));
      turn();
    };
    const CallerStats& callers = anna.driver().link_stats().callers;
    REQUIRE(eventually([&] { return flood(), callers.floods > 0; }));
    REQUIRE(anna.events.muted.size() == 1);
    CHECK(anna.events.muted[0].reason == RejectReason::kDeluge);
    // It dials again; what it says is heard so far as to cut it off again.
    CHECK(eventually([&] { return flood(), callers.floods > 1; }));
    static_cast<void>(eventually([&] { return send_payload(), false; }, 2));
    CHECK(payloads.frames_in == 1);
    CHECK(anna.driver().core().stats().peers_alive <= 1);
  }
  CHECK(eventually([&] { return pool.free_count() == kSlots; }));
}

TEST_CASE("a member whose frames are all damaged is cut off, though that proves nothing") {
  DriverPeer anna({.id = 1});
  const Identity identity = test_identity(2);
  ZmqLink bert = open_member(anna, identity);
  BareSender bulk(anna.address(), anna.address().bulk_port, identity);
  std::vector<std::byte> damaged = encode(identity.id(), BulkHello{});
  damaged.back() ^= std::byte{1};
  const CallerStats& callers = anna.driver().link_stats().callers;
  CHECK(eventually([&] {
    for (int i = 0; i < 20; ++i) bulk.send(damaged);
    take_turns(anna, bert);
    return callers.floods > 0;
  }));
  REQUIRE(anna.events.muted.size() == 1);
  CHECK(anna.events.muted[0].reason == RejectReason::kDeluge);
}

TEST_CASE("the payloads of whoever was not let in end his connection before they are many") {
  constexpr std::size_t kBytes = 1 << 20, kSlots = 4;
  CpuDevice device;
  SlotPool pool(host_memory(device, kSlots * (kBulkHeadBytes + kBytes + 64)), kSlots);
  DriverPeer anna({.id = 1});
  {
    ZmqLink bert = open_link(test_identity(2));  // who does not greet
    REQUIRE(connect(bert, anna.address()));
    const PeerId to = id_of(anna.address().key);
    const LinkStats& stats = anna.driver().link_stats();
    CHECK(eventually([&] {
      anna.turn();
      bert.flush(steady_now());
      while (bert.try_receive(steady_now())) {
      }
      for (auto slot = pool.try_acquire(); slot; slot = pool.try_acquire()) {
        if (bert.try_send_bulk(to, Push{}, slot, kBytes) != Sending::kSent) break;
      }
      return stats.callers.floods > 0;
    }));
    CHECK(stats.bulk.bytes_in > 16 * kBytes);
    CHECK(anna.mixer.idle());
  }
  CHECK(eventually([&] { return pool.free_count() == kSlots; }));
}

TEST_CASE("the messages of whoever was not let in end his connection, too") {
  DriverPeer anna({.id = 1});
  ZmqLink bert = open_link(test_identity(2));  // who does not greet
  REQUIRE(connect(bert, anna.address()));
  const PeerId to = id_of(anna.address().key);
  const LinkStats& stats = anna.driver().link_stats();
  CHECK(eventually([&] {
    for (int i = 0; i < 100; ++i) static_cast<void>(bert.try_send_control(to, ping(1)));
    anna.turn();
    bert.flush(steady_now());
    while (bert.try_receive(steady_now())) {
    }
    return stats.callers.floods > 0;
  }));
  CHECK(anna.driver().core().stats().peers_alive == 0);
}

}  // namespace starling::gossip
