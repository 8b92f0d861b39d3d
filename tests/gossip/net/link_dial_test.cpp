// Where dialling fails, for want of descriptors: nothing ends by it, and it is tried again.
#include <doctest/doctest.h>

#include <optional>
#include <vector>

#include "gossip/net/link.h"
#include "gossip/net/link_line.h"
#include "gossip/wire/wire.h"
#include "tests/gossip/net/net_support.h"

namespace starling::gossip {
namespace {

using Buffer = std::vector<std::byte>;

const Identity kBertKey = test_identity(22);
const Identity kCleoKey = test_identity(33);
const Identity kRelayKey = test_identity(44);
const PeerId kRelay = kRelayKey.id();
constexpr std::uint64_t kProcess = 3;  // of those who seal

}  // namespace

TEST_CASE("a relay that hung up and cannot be dialled is no way, and ends nothing") {
  const Listener nobody;
  ZmqLink bert = open_link(kBertKey);
  std::optional<BareSender> relay;
  relay.emplace(bert.local_address(), bert.local_address().control_port, kRelayKey);
  const auto came = [&] { return bert.try_receive(steady_now()).has_value(); };
  relay->send(encode(kRelay, ping(1)));
  REQUIRE(eventually(came));
  PeerAddress address = bert.local_address();
  address.control_port = address.bulk_port = nobody.port();
  address.key = kRelayKey.key();
  REQUIRE(connect(bert, address));  // over the connection that it made

  SUBCASE("when a stranger is answered through it") {
    const PeerId cleo = kCleoKey.id();
    Hello hello{.self = {.key = {cleo, 5}, .address = address}, .identity = {.run = 2}};
    hello.self.address.key = kCleoKey.key();
    Sealer sealer(kCleoKey, kProcess);
    const Buffer frame = encode(cleo, hello);
    Buffer envelope(frame.size() + kEnvelopeBytes);
    REQUIRE(sealer.seal({kBertKey.key(), 1}, false, frame, envelope));
    relay->send(envelope);
    REQUIRE(eventually(came));
    relay.reset();
    CHECK(eventually([&] {
      CHECK(!came());
      const NoDescriptors now;
      bert.reply(cleo, Refuse{RefuseReason::kRun, {}, bert.local_address()});
      return bert.stats().send_refused > 0;
    }));
  }
  SUBCASE("when a payload is to be forwarded to one like it") {
    PeerAddress cleo = address;
    cleo.key = kCleoKey.key();
    BareSender bulk(bert.local_address(), bert.local_address().bulk_port, kRelayKey);
    bulk.send(encode(kRelay, BulkHello{}));
    CHECK(eventually([&] { return came(), bert.was_reached_by(kRelay); }));
    const NoDescriptors now;
    CHECK(!connect(bert, cleo));
    bert.relay_for(kRelay, true);
    Sealer sealer(kRelayKey, kProcess);
    Buffer envelope(100 + kEnvelopeBytes);
    REQUIRE(sealer.seal({cleo.key, 1}, true, Buffer(100), envelope));
    bulk.send(envelope);
    CHECK(eventually([&] { return came(), bert.stats().relayed.lost == 1; }));
  }
}

TEST_CASE(
    "whoever is greeted and does not answer is dialled until nobody has greeted it for long") {
  using std::chrono::seconds;
  ZmqLink bert = open_link(kBertKey);
  const auto dead_at = [&](const Identity& identity) {
    PeerAddress address = bert.local_address();
    address.control_port = address.bulk_port = Listener().port();  // which is gone
    address.key = identity.key();
    return address;
  };
  const PeerAddress wanted = dead_at(kCleoKey), unwanted = dead_at(kRelayKey);
  const Instant begun = steady_now();
  CHECK(bert.greet(wanted, Hello{}));
  CHECK(bert.greet(unwanted, Hello{}));
  bert.watch(begun);
  CHECK(bert.greet(wanted, Hello{}));
  bert.watch(begun + seconds(10));
  bert.watch(begun + seconds(16));
  static_cast<void>(eventually([] { return false; }, 0.3));  // a dial may be under way yet
  const Listener back(wanted.control_port), unwanted_back(unwanted.control_port);
  CHECK(eventually([&] { return back.was_called(); }));
  CHECK_FALSE(eventually([&] { return unwanted_back.was_called(); }, 1.5));
  CHECK(bert.greet(unwanted, Hello{}));
  CHECK(eventually([&] { return unwanted_back.was_called(); }));
}

TEST_CASE("a lane for payloads that cannot be mended now stays as it is and is mended later") {
  const Listener nobody;
  ZmqLink bert = open_link(kBertKey);
  PeerAddress address = bert.local_address();
  address.bulk_port = nobody.port();
  zmq::context_t context{kIoThreads, kSocketsMax};
  Inbox inbox;
  const CurvePair keys = curve_pair_of(kCleoKey);
  NameResolver names;
  const Dialler dialler{context, inbox, keys, names};
  Line line(dialler, address, 1);
  line.open_bulk(dialler);
  REQUIRE(eventually([&] {
    static_cast<void>(nobody.was_called());  // and hangs up
    return line.read_monitors() == Line::News::kFailed;
  }));
  constexpr Duration kPause = std::chrono::seconds(2);
  Instant now = steady_now();
  CHECK(line.mend_bulk(dialler, now));
  {
    const NoDescriptors none;
    CHECK_THROWS_AS(line.mend_bulk(dialler, now += kPause), zmq::error_t);
    CHECK(line.writable_bulk() == nullptr);
    CHECK(!line.flush());
  }
  CHECK(line.mend_bulk(dialler, now += kPause));
  CHECK(line.mend_bulk(dialler, now += kPause));
  CHECK(!line.mend_bulk(dialler, now += kPause));  // it is dialled again
  CHECK(line.bulk_connections() == 1);
}

}  // namespace starling::gossip
