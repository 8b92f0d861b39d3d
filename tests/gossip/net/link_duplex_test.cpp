// One connection, both directions: whoever can dial does, and both can speak.
#include <doctest/doctest.h>

#include <algorithm>

#include "gossip/net/link.h"
#include "gossip/wire/wire.h"
#include "tests/gossip/net/net_support.h"

namespace starling::gossip {
namespace {

const Identity kAnnaKey = test_identity(11);
const Identity kBertKey = test_identity(22);
const PeerId kAnna = kAnnaKey.id();
const PeerId kBert = kBertKey.id();

// Anna does not listen; Bert does.
ZmqLink open_deaf(const Identity& identity) {
  LinkConfig config = link_config(identity);
  config.host.clear();
  return ZmqLink::open(config).value();
}

Hello hello_of(const ZmqLink& link) {
  const PeerAddress& address = link.local_address();
  return {.self = {.key = {id_of(address.key), 5}, .address = address}, .identity = {.run = 1}};
}

struct Pair {
  ZmqLink anna = open_deaf(kAnnaKey);
  ZmqLink bert = open_link(kBertKey);

  // Greeted by Anna, answered by Bert: both know each other.
  void meet() {
    REQUIRE(anna.greet(bert.local_address(), hello_of(anna)));
    const auto greeting = wait_for_arrival(bert, anna);
    REQUIRE(greeting.has_value());
    REQUIRE(connect(bert, std::get<Hello>(greeting->message).self.address, false));
    const Hello self = hello_of(bert);
    REQUIRE(bert.try_send_control(kAnna, Welcome{self.self, self.identity}) == Sending::kSent);
    const auto welcome = wait_for_arrival(anna, bert);
    REQUIRE(welcome.has_value());
    CHECK(welcome->from == kBert);
    REQUIRE(connect(anna, bert.local_address()));
  }
};

// Sends `count` payloads from one to the other; the number that came, in order and whole.
std::uint32_t send_payloads(ZmqLink& from, ZmqLink& to, PeerId target, std::uint32_t count) {
  constexpr std::size_t kBytes = 96 * 1024;
  CpuDevice device;
  SlotPool pool(host_memory(device, 4 * (kBulkHeadBytes + kBytes)), 4);
  std::uint32_t sent = 0;
  std::uint32_t received = 0;
  std::optional<SlotLease> slot;
  static_cast<void>(eventually([&] {
    from.flush(steady_now());
    to.flush(steady_now());
    CHECK(!from.try_receive(steady_now()).has_value());
    if (!slot) slot = pool.try_acquire();
    if (slot && sent < count) {
      std::fill_n(slot->bytes().begin() + kBulkHeadBytes, kBytes, static_cast<std::byte>(sent));
      const Push push{{.exchange = {}, .fragment = {}, .stripe = sent, .attempt = 0}};
      sent += from.try_send_bulk(target, push, slot, kBytes) == Sending::kSent;
    }
    while (auto arrival = to.try_receive(steady_now())) {
      const auto payload = arrival->payload.view();
      const bool whole =
          std::get<Push>(arrival->message).ref.stripe == received && payload.size() == kBytes &&
          std::all_of(payload.begin(), payload.end(),
                      [&](std::byte byte) { return byte == static_cast<std::byte>(received); });
      received += whole;
    }
    return received == count;
  }));
  slot.reset();
  CHECK(eventually([&] { return pool.free_count() == pool.slots(); }));
  return received;
}

}  // namespace

TEST_CASE("a peer that does not listen is spoken to over the line it opened") {
  Pair pair;
  CHECK(!listens(pair.anna.local_address()));
  pair.meet();
  for (std::uint64_t nonce = 0; nonce < 500; ++nonce) {
    REQUIRE(pair.bert.try_send_control(kAnna, ping(nonce)) == Sending::kSent);
    REQUIRE(pair.anna.try_send_control(kBert, ping(nonce)) == Sending::kSent);
    const auto at_anna = wait_for_arrival(pair.anna, pair.bert);
    const auto at_bert = wait_for_arrival(pair.bert, pair.anna);
    REQUIRE(at_anna.has_value());
    REQUIRE(at_bert.has_value());
    CHECK(std::get<Ping>(at_anna->message).nonce == nonce);
    CHECK(std::get<Ping>(at_bert->message).nonce == nonce);
  }
}

TEST_CASE("payloads travel both ways when only one side can dial") {
  Pair pair;
  pair.meet();
  SUBCASE("first towards the one who can be dialled") {
    CHECK(send_payloads(pair.anna, pair.bert, kBert, 40) == 40);
    CHECK(send_payloads(pair.bert, pair.anna, kAnna, 40) == 40);
  }
  SUBCASE("first towards the one who cannot, once it has accepted an exchange") {
    CHECK(send_payloads(pair.bert, pair.anna, kAnna, 0) == 0);
    REQUIRE(pair.anna.try_send_control(kBert, Accept{}) == Sending::kSent);
    REQUIRE(wait_for_arrival(pair.bert, pair.anna).has_value());
    CHECK(send_payloads(pair.bert, pair.anna, kAnna, 40) == 40);
  }
  SUBCASE("first towards the one who cannot, once it has asked for a piece of a state") {
    REQUIRE(pair.anna.try_send_control(kBert, PieceRequest{}) == Sending::kSent);
    REQUIRE(wait_for_arrival(pair.bert, pair.anna).has_value());
    CHECK(send_payloads(pair.bert, pair.anna, kAnna, 40) == 40);
  }
}

TEST_CASE("a payload for a peer without a bulk lane waits with the caller") {
  Pair pair;
  pair.meet();
  CpuDevice device;
  SlotPool pool(host_memory(device, 4096), 1);
  auto slot = pool.try_acquire();
  CHECK(pair.bert.try_send_bulk(kAnna, Push{}, slot, 1) == Sending::kBusy);
  CHECK(slot.has_value());
}

TEST_CASE(
    "when the one who dialled is gone its way back is gone too, and comes with its next life") {
  Pair pair;
  pair.meet();
  pair.anna = open_deaf(kAnnaKey);
  CHECK(eventually([&] { return pair.bert.try_send_control(kAnna, ping(1)) == Sending::kFailed; }));
  pair.meet();
}

TEST_CASE("when the one who was dialled restarts the line mends and carries both directions") {
  Pair pair;
  pair.meet();
  const PeerAddress address = pair.bert.local_address();
  pair.bert = open_link(test_identity(3));
  auto again = reopen(kBertKey, address);
  REQUIRE(again.ok());
  pair.bert = std::move(again).value();
  CHECK(eventually([&] {
    static_cast<void>(pair.bert.try_receive(steady_now()));
    return pair.anna.try_send_control(kBert, ping(4)) == Sending::kSent;
  }));
  REQUIRE(wait_for_arrival(pair.bert, pair.anna).has_value());
  REQUIRE(connect(pair.bert, pair.anna.local_address(), false));
  REQUIRE(pair.bert.try_send_control(kAnna, ping(5)) == Sending::kSent);
  CHECK(wait_for_arrival(pair.anna, pair.bert).has_value());
}

TEST_CASE("a peer learns that others can dial it, on both lanes, and from others only") {
  ZmqLink anna = open_link(kAnnaKey);
  ZmqLink bert = open_link(kBertKey);
  CHECK(bert.reached_from(steady_now()) == Reach::kUnspecified);
  REQUIRE(bert.greet(bert.local_address(), hello_of(bert)));  // itself
  REQUIRE(wait_for_arrival(bert, bert).has_value());
  CHECK(bert.reached_from(steady_now()) == Reach::kUnspecified);
  REQUIRE(anna.greet(bert.local_address(), hello_of(anna)));
  REQUIRE(wait_for_arrival(bert, anna).has_value());
  CHECK(bert.reached_from(steady_now()) == Reach::kUnspecified);  // one lane
  REQUIRE(connect(anna, bert.local_address(), false));            // a test of both
  CHECK(eventually([&] {
    anna.flush(steady_now());
    CHECK(!bert.try_receive(steady_now()).has_value());
    return bert.reached_from(steady_now()) == Reach::kThisMachine;
  }));
  CHECK(eventually([&] { return !anna.flush(steady_now()); }));  // the test is over
}

TEST_CASE("an address that nobody answers at is not dialled for ever") {
  ZmqLink anna = open_link(kAnnaKey);
  const ClosedPort closed;
  PeerAddress nowhere = anna.local_address();
  nowhere.key = kBertKey.key();
  nowhere.control_port = nowhere.bulk_port = closed.port();
  REQUIRE(connect(anna, nowhere, false));
  CHECK(anna.flush(steady_now()));
  CHECK(!anna.flush(steady_now() + ZmqLink::kTestMax));
  CHECK(anna.try_send_control(kBert, ping(1)) == Sending::kFailed);
  REQUIRE(connect(anna, nowhere, false));  // too soon for another try
  CHECK(!anna.flush(steady_now()));
  REQUIRE(anna.connect(steady_now() + ZmqLink::kTestEvery, {kBert, nowhere, 1, false}));
  CHECK(anna.flush(steady_now()));
}

TEST_CASE("who is replied to hears it, though the line leads to another that has its key") {
  ZmqLink anna = open_link(kAnnaKey);
  ZmqLink original = open_link(kBertKey);
  ZmqLink copy = open_link(kBertKey);
  REQUIRE(connect(anna, original.local_address()));
  REQUIRE(anna.try_send_control(kBert, ping(1)) == Sending::kSent);
  REQUIRE(wait_for_arrival(original, anna).has_value());
  REQUIRE(copy.greet(anna.local_address(), hello_of(copy)));
  REQUIRE(wait_for_arrival(anna, copy).has_value());
  anna.reply(kBert, ping(2));
  const auto heard = wait_for_arrival(copy, anna);
  REQUIRE(heard.has_value());
  CHECK(std::get<Ping>(heard->message).nonce == 2);
  CHECK(!original.try_receive(steady_now()).has_value());
}

}  // namespace starling::gossip
