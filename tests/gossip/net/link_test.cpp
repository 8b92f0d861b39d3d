#include "gossip/net/link.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/rng.h"
#include "gossip/wire/wire.h"
#include "tests/gossip/net/net_support.h"

namespace starling::gossip {

static_assert(!std::is_copy_constructible_v<ZmqLink>);

namespace {

const Identity kAnnaKey = test_identity(11);
const Identity kBertKey = test_identity(22);
const PeerId kAnna = kAnnaKey.id();
const PeerId kBert = kBertKey.id();

StripeRef stripe_ref(std::uint32_t stripe) {
  return {.exchange = {{kAnna, 1}, {kBert, 1}, 1},
          .fragment = FragmentId{0},
          .stripe = stripe,
          .attempt = 0};
}

// A good control message still gets through from `sender` to `link`.
bool still_works(ZmqLink& link, ZmqLink& sender, std::uint64_t nonce) {
  if (sender.try_send_control(kBert, ping(nonce)) != Sending::kSent) return false;
  const auto arrival = wait_for_arrival(link, sender);
  return arrival && arrival->from == kAnna && std::get<Ping>(arrival->message).nonce == nonce;
}

}  // namespace

TEST_CASE("a greeting reaches an address and a message a peer") {
  ZmqLink anna = open_link(kAnnaKey);
  ZmqLink bert = open_link(kBertKey);
  Hello hello{.self = {.key = {kAnna, 5}, .address = anna.local_address()}, .identity = {}};
  REQUIRE(anna.greet(bert.local_address(), hello));
  auto greeting = wait_for_arrival(bert, anna);
  REQUIRE(greeting.has_value());
  CHECK(greeting->from == kAnna);
  const auto& said = std::get<Hello>(greeting->message);
  CHECK(said.self == hello.self);

  REQUIRE(connect(bert, said.self.address));
  CHECK(bert.try_send_control(kAnna, ping(1)) == Sending::kSent);
  auto answer = wait_for_arrival(anna, bert);
  REQUIRE(answer.has_value());
  CHECK(answer->from == kBert);
  CHECK(std::get<Ping>(answer->message).nonce == 1);
  CHECK(answer->payload.empty());
}

TEST_CASE("messages to one peer keep their order, also those said before the line was up") {
  ZmqLink anna = open_link(kAnnaKey);
  ZmqLink bert = open_link(kBertKey);
  REQUIRE(connect(anna, bert.local_address()));
  for (std::uint64_t nonce = 0; nonce < ZmqLink::kWaitingMax; ++nonce) {
    CHECK(anna.try_send_control(kBert, ping(nonce)) == Sending::kSent);
  }
  for (std::uint64_t nonce = 0; nonce < ZmqLink::kWaitingMax; ++nonce) {
    const auto arrival = wait_for_arrival(bert, anna);
    REQUIRE(arrival.has_value());
    CHECK(std::get<Ping>(arrival->message).nonce == nonce);
  }
  CHECK(anna.stats().control.frames_out == ZmqLink::kWaitingMax);
  CHECK(bert.stats().control.frames_in == ZmqLink::kWaitingMax);
  CHECK(bert.stats().control.bytes_in == anna.stats().control.bytes_out);
}

TEST_CASE("two hundred stripes cross without a copy and every slot comes home") {
  constexpr std::size_t kPayloadBytes = 256 * 1024;
  constexpr std::uint32_t kStripes = 200;
  CpuDevice device;
  SlotPool pool(host_memory(device, 8 * (kBulkHeadBytes + kPayloadBytes)), 8);
  {
    ZmqLink anna = open_link(kAnnaKey);
    ZmqLink bert = open_link(kBertKey);
    REQUIRE(connect(anna, bert.local_address()));
    std::uint32_t sent = 0;
    std::uint32_t received = 0;
    std::uint32_t wrong = 0;
    std::optional<SlotLease> slot;
    const auto send_next = [&] {
      if (sent == kStripes) return;
      if (!slot) {
        slot = pool.try_acquire();
        if (!slot) return;
        const auto payload = slot->bytes().subspan(kBulkHeadBytes, kPayloadBytes);
        std::fill(payload.begin(), payload.end(), static_cast<std::byte>(sent));
      }
      if (anna.try_send_bulk(kBert, Push{stripe_ref(sent)}, slot, kPayloadBytes) ==
          Sending::kSent) {
        CHECK(!slot.has_value());
        ++sent;
      }
    };
    const bool all = eventually([&] {
      send_next();
      while (auto arrival = bert.try_receive(steady_now())) {
        const auto& head = std::get<Push>(arrival->message);
        const auto payload = arrival->payload.view();
        const auto fill = static_cast<std::byte>(received);
        const bool right =
            head.ref.stripe == received && payload.size() == kPayloadBytes &&
            std::all_of(payload.begin(), payload.end(), [fill](std::byte b) { return b == fill; });
        if (!right) ++wrong;
        ++received;
      }
      return received == kStripes;
    });
    CHECK(all);
    CHECK(wrong == 0);
    CHECK(bert.stats().bulk.frames_in == kStripes);
    CHECK(bert.stats().bulk.bytes_in == kStripes * (kBulkHeadBytes + kPayloadBytes));
    CHECK(eventually([&] { return pool.free_count() == pool.slots(); }));
  }
  CHECK(pool.free_count() == pool.slots());
}

TEST_CASE("a payload outlives the link that brought it") {
  CpuDevice device;
  SlotPool pool(host_memory(device, 4096), 1);
  std::optional<Arrival> arrival;
  {
    ZmqLink anna = open_link(kAnnaKey);
    ZmqLink bert = open_link(kBertKey);
    REQUIRE(connect(anna, bert.local_address()));
    auto slot = pool.try_acquire();
    slot->bytes()[kBulkHeadBytes] = std::byte{42};
    REQUIRE(eventually([&] {
      CHECK(!bert.try_receive(steady_now()).has_value());  // opens its door
      return anna.try_send_bulk(kBert, Delta{stripe_ref(0)}, slot, 1) == Sending::kSent;
    }));
    arrival = wait_for_arrival(bert, anna);
  }
  REQUIRE(arrival.has_value());
  REQUIRE(arrival->payload.size() == 1);
  CHECK(arrival->payload.view()[0] == std::byte{42});
}

TEST_CASE("slots queued for a peer that is gone come home") {
  CpuDevice device;
  SlotPool pool(host_memory(device, 16 * 1024 * 1024), 16);
  ZmqLink anna = open_link(kAnnaKey);
  {
    ZmqLink bert = open_link(kBertKey);
    REQUIRE(connect(anna, bert.local_address()));
    // Bert receives one and no more: some payloads stay in queues on both sides.
    bool heard = false;
    const bool filled = eventually(
        [&] {
          if (!heard) heard = bert.try_receive(steady_now()).has_value();
          auto slot = pool.try_acquire();
          if (!slot) return true;
          static_cast<void>(anna.try_send_bulk(kBert, Push{stripe_ref(0)}, slot,
                                               pool.slot_bytes() - kBulkHeadBytes));
          return false;
        },
        0.5);
    CHECK((filled || pool.free_count() < pool.slots()));
  }
  anna.disconnect(kBert);
  CHECK(eventually([&] { return pool.free_count() == pool.slots(); }));
}

TEST_CASE("a peer nobody connected cannot be sent to") {
  CpuDevice device;
  SlotPool pool(host_memory(device, 4096), 1);
  ZmqLink anna = open_link(kAnnaKey);
  CHECK(anna.try_send_control(kBert, ping(1)) == Sending::kFailed);
  auto slot = pool.try_acquire();
  CHECK(anna.try_send_bulk(kBert, Push{}, slot, 1) == Sending::kFailed);
  CHECK(anna.stats().send_refused == 2);
  ZmqLink bert = open_link(kBertKey);
  REQUIRE(connect(anna, bert.local_address()));
  REQUIRE(still_works(bert, anna, 1));
  anna.disconnect(kBert);
  CHECK(anna.try_send_control(kBert, ping(2)) == Sending::kFailed);
}

TEST_CASE("an address that does not answer does no harm, and gets its greeting when it does") {
  ZmqLink anna = open_link(kAnnaKey);
  PeerAddress later;
  {
    ZmqLink reserve = open_link(kBertKey);
    later = reserve.local_address();
  }
  const Hello hello{.self = {.key = {kAnna, 5}, .address = anna.local_address()}, .identity = {}};
  for (int i = 0; i < 100; ++i) CHECK(anna.greet(later, hello));
  CHECK(anna.flush(steady_now()));

  auto bert = reopen(kBertKey, later);
  REQUIRE(bert.ok());
  REQUIRE(wait_for_arrival(bert.value(), anna).has_value());
  CHECK(!anna.flush(steady_now()));
  CHECK(!bert.value().try_receive(steady_now()).has_value());  // one greeting, not a hundred
}

TEST_CASE("a name that does not resolve and an address that cannot be dialled do no harm") {
  LinkConfig config = link_config(kAnnaKey);
  config.look_up = [](const std::string&) { return NameAnswer{{}, "unknown name"}; };
  ZmqLink anna = ZmqLink::open(config).value();
  ZmqLink bert = open_link(kBertKey);
  PeerAddress nowhere = bert.local_address();
  REQUIRE(set_host(nowhere, "no-such-host.invalid"));
  const Hello hello{.self = {.key = {kAnna, 5}, .address = anna.local_address()}, .identity = {}};
  CHECK(anna.greet(nowhere, hello));
  PeerAddress broken = bert.local_address();
  REQUIRE(set_host(broken, "a;b"));
  CHECK(!anna.greet(broken, hello));
  CHECK(!connect(anna, broken));
  REQUIRE(connect(anna, bert.local_address()));
  CHECK(still_works(bert, anna, 1));
}

TEST_CASE("a peer that comes back at its address is heard again after another connect") {
  ZmqLink anna = open_link(kAnnaKey);
  PeerAddress address;
  {
    ZmqLink bert = open_link(kBertKey);
    address = bert.local_address();
    REQUIRE(connect(anna, address));
    REQUIRE(still_works(bert, anna, 1));
  }
  // What is said to the dead fails soon, and is not kept for the next life.
  CHECK(eventually([&] { return anna.try_send_control(kBert, ping(2)) == Sending::kFailed; }));
  auto bert = reopen(kBertKey, address);
  REQUIRE(bert.ok());
  REQUIRE(connect(anna, address));
  CHECK(still_works(bert.value(), anna, 3));
}

TEST_CASE("a line that broke mends itself") {
  ZmqLink anna = open_link(kAnnaKey);
  PeerAddress address;
  {
    ZmqLink bert = open_link(kBertKey);
    address = bert.local_address();
    REQUIRE(connect(anna, address));
    REQUIRE(still_works(bert, anna, 1));
  }
  auto bert = reopen(kBertKey, address);
  REQUIRE(bert.ok());
  CHECK(eventually([&] {
    static_cast<void>(bert.value().try_receive(steady_now()));
    return anna.try_send_control(kBert, ping(4)) == Sending::kSent;
  }));
}

TEST_CASE("bad frames are dropped and counted by kind, and good ones still come through") {
  ZmqLink anna = open_link(kAnnaKey);
  ZmqLink bert = open_link(kBertKey);
  REQUIRE(connect(anna, bert.local_address()));
  const PeerAddress address = bert.local_address();
  BareSender control(address, address.control_port, kAnnaKey);
  BareSender bulk(address, address.bulk_port, kAnnaKey);

  std::vector<std::byte> good = encode(kAnna, ping(1));
  std::vector<std::byte> damaged = good;
  damaged.back() ^= std::byte{1};
  control.send({});
  control.send(damaged);
  bulk.send(good);  // wrong lane
  const std::vector<std::byte> large(kControlFrameBytesMax + 1);
  control.send(large);
  control.send(good, zmq::send_flags::sndmore);
  control.send(good);
  for (int i = 0; i < 1000; ++i) control.send(good, zmq::send_flags::sndmore);
  control.send(good);
  CHECK(eventually([&] {
    CHECK(!bert.try_receive(steady_now()).has_value());
    const LinkStats& stats = bert.stats();
    return stats.malformed == 2 && stats.damaged == 1 && stats.oversized == 1 &&
           stats.multipart == 2;
  }));
  CHECK(still_works(bert, anna, 2));

  // Far too large: the connection ends in the library, before anything is allocated.
  const std::vector<std::byte> huge(4 * kBulkFrameBytesMax);
  bulk.send(huge);
  control.send(huge);
  CHECK(still_works(bert, anna, 3));
  CHECK(bert.stats().bulk.bytes_in == good.size());
}

TEST_CASE("a flood of bad frames is dropped in portions and readable tells of the rest") {
  ZmqLink bert = open_link(kBertKey);
  const PeerAddress address = bert.local_address();
  BareSender control(address, address.control_port, kAnnaKey);
  const std::vector<std::byte> bad(40);
  for (int i = 0; i < 100; ++i) control.send(bad);
  control.send(encode(kAnna, ping(1)));
  REQUIRE(eventually([&] { return bert.readable(); }));
  std::optional<Arrival> arrival;
  CHECK(eventually([&] {
    const bool more = bert.readable();
    arrival = bert.try_receive(steady_now());
    return arrival.has_value() || (!more && bert.stats().malformed > 100);
  }));
  CHECK(arrival.has_value());
  CHECK(bert.stats().malformed == 100);
}

TEST_CASE("garbage on the ports does not hurt") {
  ZmqLink anna = open_link(kAnnaKey);
  ZmqLink bert = open_link(kBertKey);
  REQUIRE(connect(anna, bert.local_address()));
  const PeerAddress address = bert.local_address();
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    RawConnection raw(seed % 2 == 0 ? address.control_port : address.bulk_port);
    std::vector<std::byte> garbage(rng.below(4096));
    for (std::byte& byte : garbage) byte = static_cast<std::byte>(rng.next());
    // Half of them begin like the transport's own greeting.
    if (rng.chance(0.5) && garbage.size() > 12) {
      garbage[0] = std::byte{0xFF};
      garbage[9] = std::byte{0x7F};
      garbage[10] = std::byte{3};
    }
    raw.send(garbage);
    CHECK(still_works(bert, anna, seed));
  }
}

TEST_CASE("an endpoint has brackets around an IPv6 literal and a star for any port") {
  CHECK(endpoint("127.0.0.1", 7700) == "tcp://127.0.0.1:7700");
  CHECK(endpoint("peer.example.org", 0) == "tcp://peer.example.org:*");
  CHECK(endpoint("fe80::1%eth0", 1) == "tcp://[fe80::1%eth0]:1");
}

TEST_CASE("a link listens on a name's address, but not where its own machine alone would hear it") {
  LinkConfig config = link_config(kBertKey);
  config.host = "localhost";
  config.look_up = [](const std::string& name) {
    return name == "carla.example" ? NameAnswer{{}, "unknown"} : NameAnswer{{"127.0.0.1"}, {}};
  };
  {
    auto bert = ZmqLink::open(config);
    REQUIRE(bert.ok());
    CHECK(host(bert.value().local_address()) == "localhost");
    PeerAddress address = bert.value().local_address();
    REQUIRE(set_host(address, "127.0.0.1"));
    ZmqLink anna = open_link(kAnnaKey);
    Hello hello{.self = {.key = {kAnna, 5}, .address = anna.local_address()}, .identity = {}};
    REQUIRE(anna.greet(address, hello));
    CHECK(wait_for_arrival(bert.value(), anna).has_value());
  }
  for (const char* name : {"bert.example", "carla.example"}) {
    config.host = name;
    auto none = ZmqLink::open(config);
    REQUIRE(!none.ok());
    CHECK(none.error().message().find("gossip.listen") != std::string::npos);
  }
}

TEST_CASE("a port in use is an error that names the address and the setting") {
  ZmqLink anna = open_link(kAnnaKey);
  const std::uint16_t port = anna.local_address().control_port;
  LinkConfig config = link_config(kBertKey);
  config.control_port = port;
  auto second = ZmqLink::open(config);
  REQUIRE(!second.ok());
  CHECK(second.error().code() == ErrorCode::kIo);
  const std::string& message = second.error().message();
  CHECK(message.find("127.0.0.1:" + std::to_string(port)) != std::string::npos);
  CHECK(message.find("gossip.listen") != std::string::npos);

  config.control_port = 0;
  config.bulk_port = port;
  auto third = ZmqLink::open(config);
  REQUIRE(!third.ok());
  CHECK(third.error().message().find("gossip.bulk_port") != std::string::npos);
  config.host = "no such host";
  CHECK(!ZmqLink::open(config).ok());
  config.host = "192.0.2.1";
  CHECK(!ZmqLink::open(config).ok());
}

}  // namespace starling::gossip
