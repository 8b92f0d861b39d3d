// Who gets in, and who gets heard: keys, lists and secrets.
#include <doctest/doctest.h>

#include <string>

#include "gossip/net/envelope_limit.h"
#include "gossip/net/link.h"
#include "gossip/wire/wire.h"
#include "tests/gossip/net/net_support.h"

namespace starling::gossip {
namespace {

const Identity kAnnaKey = test_identity(11);
const Identity kBertKey = test_identity(22);
const Identity kCleoKey = test_identity(33);
const PeerId kAnna = kAnnaKey.id();
const PeerId kBert = kBertKey.id();

AllowList only(std::initializer_list<const Identity*> members) {
  AllowList list;
  for (const Identity* member : members) list.add(member->key());
  return list;
}

ZmqLink open_with(const Identity& identity, std::optional<AllowList> allow,
                  std::optional<SwarmSecret> secret = {}) {
  LinkConfig config = link_config(identity);
  config.allow = std::move(allow);
  config.secret = std::move(secret);
  return ZmqLink::open(config).value();
}

SwarmSecret secret_of(char letter) {
  const std::string text(32, letter);
  return SwarmSecret(std::as_bytes(std::span(text)));
}

Hello hello_of(const ZmqLink& link) {
  const PeerAddress& address = link.local_address();
  return {.self = {.key = {id_of(address.key), 5}, .address = address}, .identity = {.run = 1}};
}

bool is_refusal(std::span<const std::byte> bytes, RefuseReason reason) {
  auto frame = decode(bytes);
  if (!frame.ok()) return false;
  const auto* refusal = std::get_if<Refuse>(&frame.value().message);
  return refusal != nullptr && refusal->reason == reason;
}

// Everything that both have to say is said, for a moment.
void let_pass(ZmqLink& left, ZmqLink& right, std::vector<Arrival>& heard, double seconds = 0.3) {
  static_cast<void>(eventually(
      [&] {
        for (ZmqLink* link : {&left, &right}) {
          link->flush(steady_now());
          while (auto arrival = link->try_receive(steady_now()))
            heard.push_back(*std::move(arrival));
        }
        return false;
      },
      seconds));
}

// The first refusal that `link` tells of; what both hear meanwhile is kept.
std::optional<LinkRefusal> refusal_at(ZmqLink& link, ZmqLink& other, std::vector<Arrival>& heard) {
  std::optional<LinkRefusal> refusal;
  static_cast<void>(eventually([&] {
    for (ZmqLink* one : {&link, &other}) {
      one->flush(steady_now());
      if (auto arrival = one->try_receive(steady_now())) heard.push_back(*std::move(arrival));
    }
    for (const LinkRefusal& told : link.take_refusals()) refusal = refusal.value_or(told);
    return refusal.has_value();
  }));
  return refusal;
}

}  // namespace

TEST_CASE("a key on the list gets in and one that is not hears so, and both sides are told") {
  ZmqLink bert = open_with(kBertKey, only({&kAnnaKey}));
  ZmqLink anna = open_link(kAnnaKey);
  REQUIRE(anna.greet(bert.local_address(), hello_of(anna)));
  REQUIRE(wait_for_arrival(bert, anna).has_value());

  ZmqLink cleo = open_link(kCleoKey);
  REQUIRE(cleo.greet(bert.local_address(), hello_of(cleo)));
  std::vector<Arrival> heard;
  const auto at_cleo = refusal_at(cleo, bert, heard);
  REQUIRE(at_cleo.has_value());
  CHECK(at_cleo->id == kBert);
  CHECK(at_cleo->event.reason == RefuseReason::kNotAllowed);
  CHECK(at_cleo->event.address == bert.local_address());
  CHECK(!at_cleo->event.by_us);
  const auto at_bert = bert.take_refusals();
  REQUIRE(at_bert.size() == 1);
  CHECK(at_bert[0].event.address.key == kCleoKey.key());
  CHECK(host(at_bert[0].event.address) == "127.0.0.1");
  CHECK(at_bert[0].event.by_us);
  CHECK(bert.stats().control.frames_in == 1);
}

TEST_CASE("one who is refused gets in when he calls again after the list has changed") {
  ZmqLink bert = open_with(kBertKey, only({}));
  ZmqLink anna = open_link(kAnnaKey);
  REQUIRE(anna.greet(bert.local_address(), hello_of(anna)));
  std::vector<Arrival> heard;
  REQUIRE(refusal_at(anna, bert, heard).has_value());
  bert.set_allow_list(only({&kAnnaKey}));
  REQUIRE(anna.greet(bert.local_address(), hello_of(anna)));
  CHECK(wait_for_arrival(bert, anna).has_value());
}

TEST_CASE("a stranger that has hung up is not called at the address that it named") {
  const Listener elsewhere;
  ZmqLink bert = open_link(kBertKey);
  Hello hello = hello_of(bert);
  hello.self.key.id = kCleoKey.id();
  hello.self.address.control_port = hello.self.address.bulk_port = elsewhere.port();
  hello.self.address.key = kCleoKey.key();
  const auto refuse = [&] {
    bert.reply(kCleoKey.id(), Refuse{RefuseReason::kModel, {}, bert.local_address()});
  };
  {
    BareSender cleo(bert.local_address(), bert.local_address().control_port, kCleoKey);
    cleo.send(encode(kCleoKey.id(), hello));
    REQUIRE(eventually([&] { return bert.try_receive(steady_now()).has_value(); }));
    refuse();
    zmq::message_t answer;
    REQUIRE(eventually(
        [&] { return cleo.socket.recv(answer, zmq::recv_flags::dontwait).has_value(); }));
    const std::span bytes(static_cast<const std::byte*>(answer.data()), answer.size());
    CHECK(is_refusal(bytes, RefuseReason::kModel));
  }
  CHECK(eventually([&] {
    CHECK(!bert.try_receive(steady_now()).has_value());
    refuse();
    bert.flush(steady_now());
    return bert.stats().send_refused > 0;
  }));
  CHECK_FALSE(eventually([&] { return elsewhere.was_called(); }, 0.3));
}

TEST_CASE("a key taken off the list is told, disconnected, and not heard any more") {
  ZmqLink bert = open_with(kBertKey, only({&kAnnaKey}));
  ZmqLink anna = open_link(kAnnaKey);
  REQUIRE(connect(anna, bert.local_address()));
  REQUIRE(anna.try_send_control(kBert, ping(1)) == Sending::kSent);
  REQUIRE(wait_for_arrival(bert, anna).has_value());
  REQUIRE(connect(bert, anna.local_address()));

  bert.set_allow_list(only({&kCleoKey}));
  CHECK(bert.try_send_control(kAnna, ping(2)) == Sending::kFailed);
  CHECK(!bert.greet(anna.local_address(), hello_of(bert)));
  CHECK(!connect(bert, anna.local_address()));
  const auto told = wait_for_arrival(anna, bert);
  REQUIRE(told.has_value());
  CHECK(std::get<Refuse>(told->message).reason == RefuseReason::kNotAllowed);
  CHECK(std::get<Refuse>(told->message).address == bert.local_address());
  REQUIRE(anna.try_send_control(kBert, ping(3)) == Sending::kSent);
  CHECK(eventually([&] {
    CHECK(!bert.try_receive(steady_now()).has_value());
    return bert.stats().not_allowed == 1;
  }));
}

TEST_CASE("a peer that dials one key does not speak to another at the same address") {
  ZmqLink bert = open_link(kBertKey);
  ZmqLink anna = open_link(kAnnaKey);
  PeerAddress wrong = bert.local_address();
  wrong.key = kCleoKey.key();
  REQUIRE(anna.greet(wrong, hello_of(anna)));
  std::vector<Arrival> heard;
  let_pass(anna, bert, heard, 0.5);
  CHECK(heard.empty());
  CHECK(bert.stats().control.frames_in == 0);
  CHECK(anna.stats().handshakes_failed > 0);  // and says so
  const std::uint64_t before = anna.stats().handshakes_failed;
  REQUIRE(anna.greet(wrong, hello_of(anna)));  // tries again when asked to
  let_pass(anna, bert, heard, 0.5);
  CHECK(anna.stats().handshakes_failed > before);
}

TEST_CASE("frames in another's name are dropped and counted") {
  ZmqLink bert = open_link(kBertKey);
  const PeerAddress address = bert.local_address();
  BareSender cleo(address, address.control_port, kCleoKey);
  cleo.send(encode(kAnna, ping(1)));
  // The right name outside and another's record inside.
  Hello stolen{.self = {.key = {kAnna, 9}, .address = {}}, .identity = {.run = 1}};
  stolen.self.address.key = kAnnaKey.key();
  cleo.send(encode(kCleoKey.id(), stolen));
  cleo.send(encode(kCleoKey.id(), Refuse{RefuseReason::kRun, {}, stolen.self.address}));
  CHECK(eventually([&] {
    CHECK(!bert.try_receive(steady_now()).has_value());
    return bert.stats().forged == 3;
  }));
  cleo.send(encode(kCleoKey.id(), ping(2)));
  CHECK(eventually([&] { return bert.try_receive(steady_now()).has_value(); }));
}

TEST_CASE("greetings with the same secret are heard and others are refused on both sides") {
  ZmqLink bert = open_with(kBertKey, {}, secret_of('s'));
  ZmqLink anna = open_with(kAnnaKey, {}, secret_of('s'));
  REQUIRE(anna.greet(bert.local_address(), hello_of(anna)));
  const auto greeting = wait_for_arrival(bert, anna);
  REQUIRE(greeting.has_value());
  CHECK(greeting->from == kAnna);

  // Another secret, and none at all.
  for (ZmqLink& cleo : std::array{open_with(kCleoKey, {}, secret_of('t')), open_link(kCleoKey)}) {
    REQUIRE(cleo.greet(bert.local_address(), hello_of(cleo)));
    std::vector<Arrival> heard;
    const auto by_bert = refusal_at(bert, cleo, heard);
    REQUIRE(by_bert.has_value());
    CHECK(by_bert->id == kCleoKey.id());
    CHECK(by_bert->event.reason == RefuseReason::kSecret);
    CHECK(by_bert->event.by_us);
    if (heard.empty()) let_pass(cleo, bert, heard);
    REQUIRE(heard.size() == 1);
    CHECK(heard[0].from == kBert);
    CHECK(std::get<Refuse>(heard[0].message).reason == RefuseReason::kSecret);
  }
  CHECK(bert.stats().unproven == 2);
}

TEST_CASE("a welcome without the secret is refused by the one who called") {
  ZmqLink bert = open_link(kBertKey);  // knows no secret and asks for none
  ZmqLink anna = open_with(kAnnaKey, {}, secret_of('s'));
  REQUIRE(anna.greet(bert.local_address(), hello_of(anna)));
  REQUIRE(wait_for_arrival(bert, anna).has_value());
  REQUIRE(connect(bert, anna.local_address()));
  const Hello said = hello_of(bert);
  REQUIRE(bert.try_send_control(kAnna, Welcome{said.self, said.identity}) == Sending::kSent);
  std::vector<Arrival> heard;
  const auto by_anna = refusal_at(anna, bert, heard);
  REQUIRE(by_anna.has_value());
  CHECK(by_anna->event.reason == RefuseReason::kSecret);
  CHECK(anna.stats().unproven == 1);
}

TEST_CASE("a proof of the secret is worth nothing in another's mouth") {
  ZmqLink bert = open_with(kBertKey, {}, secret_of('s'));
  const PeerAddress address = bert.local_address();
  // Cleo has seen Anna's proof for Bert, and Bert's own for Anna, but does not know the secret.
  Hello hello{.self = {.key = {kCleoKey.id(), 1}, .address = {}}, .identity = {.run = 1}};
  hello.self.address.key = kCleoKey.key();
  BareSender cleo(address, address.control_port, kCleoKey);
  hello.proof = secret_of('s').prove({kAnnaKey.key(), kBertKey.key(), 1});
  cleo.send(encode(kCleoKey.id(), hello));
  hello.proof = secret_of('s').prove({kBertKey.key(), kAnnaKey.key(), 1});
  cleo.send(encode(kCleoKey.id(), hello));
  hello.proof = secret_of('s').prove({kCleoKey.key(), kBertKey.key(), 2});  // of another run
  cleo.send(encode(kCleoKey.id(), hello));
  CHECK(eventually([&] {
    CHECK(!bert.try_receive(steady_now()).has_value());
    return bert.stats().unproven == 3;
  }));
}

TEST_CASE("with a secret alone payloads come from those who have shown that they know it") {
  ZmqLink bert = open_with(kBertKey, {}, secret_of('s'));
  const PeerAddress address = bert.local_address();
  BareSender payloads(address, address.bulk_port, kCleoKey);
  payloads.send(encode(kCleoKey.id(), BulkHello{}, kVersions.max));
  const auto hears_payload = [&bert] {
    bert.watch(steady_now());
    static_cast<void>(bert.try_receive(steady_now()));
    return bert.stats().bulk.frames_in > 0;
  };
  CHECK(eventually([&] {
    CHECK(!hears_payload());
    return bert.stats().callers.unfinished > 0;
  }));
  Hello hello{.self = {.key = {kCleoKey.id(), 1}, .address = {}}, .identity = {.run = 1}};
  hello.self.address.key = kCleoKey.key();
  hello.proof = secret_of('s').prove({kCleoKey.key(), kBertKey.key(), 1});
  BareSender cleo(address, address.control_port, kCleoKey);
  cleo.send(encode(kCleoKey.id(), hello));
  CHECK(eventually(hears_payload));  // ZeroMQ has gone on dialling
}

TEST_CASE(
    "forged envelopes are opened in bounded number, and one who has proved himself is heard") {
  ZmqLink bert = open_link(kBertKey);
  Instant now = steady_now();
  BareSender relay(bert.local_address(), bert.local_address().control_port, test_identity(44));
  Sealer anna(kAnnaKey, 3), cleo(kCleoKey, 3);
  const auto say = [&](Sealer& sealer, PeerId from, bool forged) {
    const std::vector<std::byte> frame = encode(from, ping(1));
    std::vector<std::byte> envelope(frame.size() + kEnvelopeBytes);
    REQUIRE(sealer.seal({kBertKey.key(), 1}, false, frame, envelope));
    if (forged) envelope.back() ^= std::byte{1};
    relay.send(envelope);
  };
  const auto hears_anna = [&] {
    say(anna, kAnna, false);
    return eventually([&] { return bert.try_receive(now).has_value(); });
  };
  const auto count = [&](EnvelopeFault fault) {
    return bert.stats().relayed.envelopes[static_cast<std::size_t>(fault)];
  };
  constexpr auto kAtOnce = static_cast<std::uint64_t>(EnvelopeLimit::kAtOnce);
  const auto flood = [&](std::uint64_t unread) {
    for (std::uint64_t i = 0; i < kAtOnce + 100; ++i) say(cleo, kCleoKey.id(), true);
    return eventually([&] {
      CHECK(!bert.try_receive(now).has_value());
      return count(EnvelopeFault::kUnread) == unread;
    });
  };
  CHECK(hears_anna());
  CHECK(flood(101));
  CHECK(count(EnvelopeFault::kForged) == kAtOnce - 1);
  CHECK(hears_anna());
  now += std::chrono::seconds(1);
  constexpr auto kInASecond = static_cast<std::uint64_t>(EnvelopeLimit::kPerSecond);
  CHECK(flood(101 + kAtOnce + 100 - kInASecond));
  CHECK(hears_anna());
  CHECK(bert.take_bad_frames().empty());  // the bringer may be honest
}

}  // namespace starling::gossip
