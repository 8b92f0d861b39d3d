// Links that speak through a relay: a link that forwards, and a program that is no link and does
// with what it carries as it likes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "gossip/net/link.h"
#include "gossip/wire/wire.h"
#include "tests/gossip/net/net_support.h"

namespace starling::gossip {
namespace {

using Buffer = std::vector<std::byte>;

const Identity kAnnaKey = test_identity(11);
const Identity kBertKey = test_identity(22);
const Identity kCleoKey = test_identity(33);
const Identity kRelayKey = test_identity(44);
const PeerId kAnna = kAnnaKey.id();
const PeerId kBert = kBertKey.id();
const PeerId kRelay = kRelayKey.id();
constexpr std::uint64_t kProcess = 3;  // of everybody

LinkConfig deaf_config(const Identity& identity) {
  LinkConfig config = link_config(identity);
  config.host.clear();
  config.process = kProcess;
  return config;
}

ZmqLink open_deaf(const Identity& identity) { return ZmqLink::open(deaf_config(identity)).value(); }

// Lets `link` reach the peer with that key through the relay.
void connect_through_relay(ZmqLink& link, const Identity& other) {
  PeerAddress address;
  address.key = other.key();
  REQUIRE(
      link.connect(steady_now(), {other.id(), address, kVersions.max, false, {kRelay, kProcess}}));
}

// A peer's sockets without the peer: catches what comes and sends what it is told to.
class BareRelay {
 public:
  struct Caught {
    bool bulk = false;
    Buffer bytes;
  };

  BareRelay() {
    const CurvePair keys = curve_pair_of(kRelayKey);
    address_.key = kRelayKey.key();
    REQUIRE(set_host(address_, "127.0.0.1"));
    for (zmq::socket_t* socket : {&control_, &bulk_}) {
      socket->set(zmq::sockopt::linger, 0);
      socket->set(zmq::sockopt::curve_server, true);
      socket->set(zmq::sockopt::curve_secretkey,
                  zmq::buffer(keys.secret_key.data(), keys.secret_key.size()));
      socket->bind("tcp://127.0.0.1:*");
    }
    address_.control_port = bound_port(control_);
    address_.bulk_port = bound_port(bulk_);
  }
  const PeerAddress& address() const { return address_; }

  // Waits until a link that is connected here has opened both lanes.
  void meet(ZmqLink& link, PeerId id) {
    REQUIRE(connect(link, address_));
    REQUIRE(link.try_send_control(kRelay, Offer{}) == Sending::kSent);
    REQUIRE(eventually([&] {
      link.flush(steady_now());
      pump();
      return routes_[0].contains(id) && routes_[1].contains(id);
    }));
  }
  Caught wait_for_envelope(ZmqLink& sender) {
    REQUIRE(eventually([&] {
      sender.flush(steady_now());
      pump();
      return !caught_.empty();
    }));
    Caught first = caught_.front();
    caught_.erase(caught_.begin());
    return first;
  }
  void send(PeerId to, bool bulk, const Buffer& bytes) {
    zmq::socket_t& socket = bulk ? bulk_ : control_;
    const std::string& route = routes_[bulk ? 1 : 0].at(to);
    static_cast<void>(socket.send(zmq::buffer(route), zmq::send_flags::sndmore));
    static_cast<void>(socket.send(zmq::buffer(bytes.data(), bytes.size())));
  }

 private:
  void pump() {
    for (const bool bulk : {false, true}) {
      zmq::socket_t& socket = bulk ? bulk_ : control_;
      zmq::message_t route, frame;
      while (try_receive(socket, route) && try_receive(socket, frame)) {
        const auto* first = static_cast<const std::byte*>(frame.data());
        const Buffer bytes(first, first + frame.size());
        if (is_envelope(bytes)) {
          caught_.push_back({bulk, bytes});
        } else if (auto decoded = decode(bytes); decoded.ok()) {
          routes_[bulk ? 1 : 0][decoded.value().from] = route.to_string();
        }
      }
    }
  }

  zmq::context_t context_{1};
  zmq::socket_t control_{context_, zmq::socket_type::router};
  zmq::socket_t bulk_{context_, zmq::socket_type::router};
  PeerAddress address_;
  std::array<std::map<PeerId, std::string>, 2> routes_;
  std::vector<Caught> caught_;
};

struct Carried {
  BareRelay relay;
  ZmqLink anna = open_deaf(kAnnaKey);
  ZmqLink bert = open_deaf(kBertKey);

  Carried() {
    relay.meet(anna, kAnna);
    relay.meet(bert, kBert);
    connect_through_relay(anna, kBertKey);
    connect_through_relay(bert, kAnnaKey);
  }
  BareRelay::Caught caught_ping(std::uint64_t nonce) {
    REQUIRE(anna.try_send_control(kBert, ping(nonce)) == Sending::kSent);
    return relay.wait_for_envelope(anna);
  }
  BareRelay::Caught caught_push() {
    constexpr std::size_t kBytes = 5000;
    CpuDevice device;
    SlotPool pool(host_memory(device, 8192), 1);
    auto slot = pool.try_acquire();
    std::fill_n(slot->bytes().begin() + kBulkHeadBytes, kBytes, std::byte{7});
    REQUIRE(eventually([&] {
      anna.flush(steady_now());
      return anna.try_send_bulk(kBert, Push{}, slot, kBytes) == Sending::kSent;
    }));
    CHECK(pool.free_count() == 1);  // it was copied into the envelope
    return relay.wait_for_envelope(anna);
  }
  std::uint64_t dropped_by_bert() const {
    std::uint64_t count = 0;
    const auto& envelopes = bert.stats().relayed.envelopes;
    for (std::size_t fault = 1; fault < kEnvelopeFaults; ++fault) count += envelopes[fault];
    // Whose head is none is counted as no message, too.
    const auto headless = envelopes[static_cast<std::size_t>(EnvelopeFault::kMalformed)];
    return count - headless + bert.stats().malformed + bert.stats().forged + bert.stats().oversized;
  }
  // Bert drops it, whatever it is; what was not touched still arrives afterwards.
  void check_dropped(const BareRelay::Caught& bad) {
    const std::uint64_t before = dropped_by_bert();
    relay.send(kBert, bad.bulk, bad.bytes);
    CHECK(eventually([&] {
      CHECK(!bert.try_receive(steady_now()).has_value());
      return dropped_by_bert() == before + 1;
    }));
  }
  std::uint64_t faults(EnvelopeFault fault) const {
    return bert.stats().relayed.envelopes[static_cast<std::size_t>(fault)];
  }
  std::optional<Arrival> arrival() { return wait_for_arrival(bert, anna); }
};

}  // namespace

TEST_CASE("what a relay passes on as it came arrives as if its sender had brought it") {
  Carried world;
  const auto caught = world.caught_ping(5);
  CHECK(!caught.bulk);
  world.relay.send(kBert, false, caught.bytes);
  const auto small = world.arrival();
  REQUIRE(small.has_value());
  CHECK(small->from == kAnna);
  CHECK(small->through == kRelay);
  CHECK(std::get<Ping>(small->message).nonce == 5);
  const auto payload = world.caught_push();
  CHECK(payload.bulk);
  world.relay.send(kBert, true, payload.bytes);
  const auto large = world.arrival();
  REQUIRE(large.has_value());
  CHECK(large->from == kAnna);
  const auto bytes = large->payload.view();
  CHECK(bytes.size() == 5000);
  CHECK(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{7}; }));
}

TEST_CASE("whatever a relay changes in an envelope, nothing of it arrives, and it is counted") {
  Carried world;
  for (const bool bulk : {false, true}) {
    CAPTURE(bulk);
    const auto whole = bulk ? world.caught_push() : world.caught_ping(1);
    // One byte of each field of the head, of what is sealed and of the authenticator.
    for (const std::size_t at : std::initializer_list<std::size_t>{
             4, 5, 6, 8, 15, 16, 47, 48, 56, 64, 72, 95, 96, 130, whole.bytes.size() - 17,
             whole.bytes.size() - 16, whole.bytes.size() - 1}) {
      CAPTURE(at);
      auto changed = whole;
      changed.bytes[at] ^= std::byte{1};
      world.check_dropped(changed);
    }
    for (const std::size_t size : std::initializer_list<std::size_t>{
             4, 95, 96, 112, 113, whole.bytes.size() / 2, whole.bytes.size() - 1}) {
      CAPTURE(size);
      auto cut = whole;
      cut.bytes.resize(size);
      world.check_dropped(cut);
    }
    auto longer = whole;
    longer.bytes.push_back(std::byte{});
    world.check_dropped(longer);
    auto other_lane = whole;
    other_lane.bulk = !bulk;
    world.check_dropped(other_lane);
    CHECK(world.faults(EnvelopeFault::kForged) > 0);
    CHECK(world.faults(EnvelopeFault::kOtherProcess) > 0);
    CHECK(world.faults(EnvelopeFault::kMalformed) > 0);
    // None of that used up the true one.
    world.relay.send(kBert, bulk, whole.bytes);
    CHECK(world.arrival().has_value());
  }
}

TEST_CASE("a relay that repeats and reorders: everything arrives once") {
  Carried world;
  const auto first = world.caught_ping(1);
  const auto second = world.caught_ping(2);
  world.relay.send(kBert, false, second.bytes);
  world.relay.send(kBert, false, first.bytes);
  for (const std::uint64_t nonce : {2U, 1U}) {
    const auto arrival = world.arrival();
    REQUIRE(arrival.has_value());
    CHECK(std::get<Ping>(arrival->message).nonce == nonce);
  }
  world.check_dropped(first);
  world.check_dropped(second);
  CHECK(world.faults(EnvelopeFault::kReplayed) == 2);
}

TEST_CASE("a relay can neither redirect an envelope nor put another's name on it") {
  Carried world;
  ZmqLink cleo = open_deaf(kCleoKey);
  world.relay.meet(cleo, kCleoKey.id());
  const auto whole = world.caught_ping(1);
  // To Cleo, as it is and with her name on it.
  auto redirected = whole;
  const std::uint64_t to = kCleoKey.id().value;
  std::memcpy(redirected.bytes.data() + 8, &to, sizeof to);
  world.relay.send(kCleoKey.id(), false, whole.bytes);
  world.relay.send(kCleoKey.id(), false, redirected.bytes);
  CHECK(eventually([&] {
    CHECK(!cleo.try_receive(steady_now()).has_value());
    return cleo.stats().forged == 1 &&
           cleo.stats().relayed.envelopes[static_cast<std::size_t>(EnvelopeFault::kForged)] == 1;
  }));
  // Back to Anna.
  world.relay.send(kAnna, false, whole.bytes);
  CHECK(eventually([&] {
    CHECK(!world.anna.try_receive(steady_now()).has_value());
    return world.anna.stats().forged == 1;
  }));
  auto renamed = whole;
  std::copy_n(reinterpret_cast<const std::byte*>(kCleoKey.key().bytes.data()), 32,
              renamed.bytes.begin() + 16);
  world.check_dropped(renamed);
  // Its own: it seals what it likes, in its own name only.
  Sealer sealer(kRelayKey, kProcess);
  const Buffer lie = encode(kAnna, ping(9));
  BareRelay::Caught own{false, Buffer(lie.size() + kEnvelopeBytes)};
  REQUIRE(sealer.seal({kBertKey.key(), kProcess}, false, lie, own.bytes));
  world.check_dropped(own);
}

TEST_CASE("a sealed lie about its sender is dropped, and garbage is proof against who sealed it") {
  Carried world;
  Sealer cleo(kCleoKey, kProcess);
  const auto sealed = [&](const Buffer& frame) {
    BareRelay::Caught envelope{false, Buffer(frame.size() + kEnvelopeBytes)};
    REQUIRE(cleo.seal({kBertKey.key(), kProcess}, false, frame, envelope.bytes));
    return envelope;
  };
  world.check_dropped(sealed(encode(kAnna, ping(9))));
  CHECK(world.bert.stats().forged == 1);
  world.relay.send(kBert, false, sealed(Buffer(40, std::byte{9})).bytes);
  CHECK(eventually([&] {
    CHECK(!world.bert.try_receive(steady_now()).has_value());
    return world.bert.stats().malformed == 1;
  }));
  CHECK(world.bert.take_bad_frames() ==
        std::vector<BadFrame>{{kCleoKey.id(), RejectReason::kOthersName},
                              {kCleoKey.id(), RejectReason::kMalformed}});
}

TEST_CASE("who is not on the list, or does not know the secret, is not let in by a relay either") {
  BareRelay relay;
  ZmqLink anna = open_deaf(kAnnaKey);
  relay.meet(anna, kAnna);
  connect_through_relay(anna, kBertKey);
  LinkConfig config = deaf_config(kBertKey);
  PeerRecord self{.key = {kAnna, kProcess << kRefutationBits}, .address = {}};
  self.address.key = kAnnaKey.key();
  PeerAddress address_of_bert;
  address_of_bert.key = kBertKey.key();
  REQUIRE(anna.greet(address_of_bert, Hello{self, {.run = 1}}, {kRelay, kProcess}));
  const auto hello = relay.wait_for_envelope(anna);
  const auto is_not_let_in = [&](const auto& envelope) {
    ZmqLink bert = ZmqLink::open(config).value();
    relay.meet(bert, kBert);
    relay.send(kBert, false, envelope);
    CHECK(eventually([&] {
      CHECK(!bert.try_receive(steady_now()).has_value());
      return bert.stats().not_allowed == 1;
    }));
    CHECK(bert.take_refusals().empty());
  };
  SUBCASE("not on the list") {
    config.allow.emplace().add(kRelayKey.key());
    is_not_let_in(hello.bytes);
  }
  SUBCASE("not on the list, with a key that a relay made up from a partner's id") {
    config.allow.emplace().add(kAnnaKey.key());
    config.allow->add(kRelayKey.key());
    auto forged = hello.bytes;
    forged[16 + sizeof(PeerId)] ^= std::byte{1};  // behind the sender's id
    is_not_let_in(forged);
  }
  SUBCASE("without the secret, which both sides are told") {
    config.secret.emplace(Buffer(SwarmSecret::kBytesMin, std::byte{5}));
    ZmqLink bert = ZmqLink::open(config).value();
    relay.meet(bert, kBert);
    relay.send(kBert, false, hello.bytes);
    CHECK(eventually([&] {
      CHECK(!bert.try_receive(steady_now()).has_value());
      return bert.stats().unproven == 1;
    }));
    relay.send(kAnna, false, relay.wait_for_envelope(bert).bytes);
    const auto refusal = wait_for_arrival(anna, bert);
    REQUIRE(refusal.has_value());
    CHECK(refusal->from == kBert);
    CHECK(std::get<Refuse>(refusal->message).reason == RefuseReason::kSecret);
  }
}

TEST_CASE("a link forwards for whom it is told to, and nothing in another's name") {
  ZmqLink relay = open_link(kRelayKey);
  ZmqLink anna = open_deaf(kAnnaKey);
  ZmqLink bert = open_deaf(kBertKey);
  for (ZmqLink* link : {&anna, &bert}) {
    REQUIRE(connect(*link, relay.local_address()));
    REQUIRE(link->try_send_control(kRelay, ping(1)) == Sending::kSent);
    REQUIRE(wait_for_arrival(relay, *link).has_value());
    REQUIRE(connect(relay, link->local_address(), false));
  }
  connect_through_relay(anna, kBertKey);
  const auto relayed = [&] { return relay.stats().relayed; };
  const auto say = [&](std::uint64_t nonce) {
    REQUIRE(anna.try_send_control(kBert, ping(nonce)) == Sending::kSent);
  };
  const auto turn = [&] {
    anna.flush(steady_now());
    CHECK(!relay.try_receive(steady_now()).has_value());
    relay.flush(steady_now());
  };
  say(1);
  CHECK(eventually([&] { return turn(), relayed().unasked == 1; }));
  CHECK(relay.take_forwarded().empty());  // or any partner could make it open lines to all others
  relay.relay_for(kBert, true);
  say(2);
  std::optional<Arrival> arrival;
  CHECK(eventually([&] {
    turn();
    arrival = bert.try_receive(steady_now());
    return arrival.has_value();
  }));
  CHECK(arrival->through == kRelay);
  CHECK(relayed().frames == 1);
  CHECK(relay.take_forwarded() == std::vector<Forwarded>{{kAnna, kBert}});
  // Cleo hands in an envelope that Anna has sealed, or says so.
  Sealer sealer(kAnnaKey, kProcess);
  const Buffer frame = encode(kAnna, ping(3));
  Buffer envelope(frame.size() + kEnvelopeBytes);
  REQUIRE(sealer.seal({kBertKey.key(), kProcess}, false, frame, envelope));
  BareSender cleo(relay.local_address(), relay.local_address().control_port, kCleoKey);
  cleo.send(envelope);
  CHECK(eventually([&] { return turn(), relay.stats().forged == 1; }));
  relay.disconnect(kBert);
  say(4);
  CHECK(eventually([&] { return turn(), relayed().unasked == 2; }));
  CHECK(relayed().frames == 1);
}

}  // namespace starling::gossip
