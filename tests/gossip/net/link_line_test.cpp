// One line with several connections for payloads, to a real link.
#include "gossip/net/link_line.h"

#include <doctest/doctest.h>

#include <array>

#include "gossip/wire/wire.h"
#include "tests/gossip/net/net_support.h"

namespace starling::gossip {
namespace {

const Identity kAnnaKey = test_identity(11);
const Identity kBertKey = test_identity(22);
constexpr std::size_t kBytes = 256 * 1024;
constexpr std::size_t kSlots = 256;
constexpr std::uint8_t kConnections = 3;

struct LineToBert {
  CpuDevice device;
  SlotPool pool{host_memory(device, kSlots*(kBulkHeadBytes + kBytes)), kSlots};
  zmq::context_t context{kIoThreads, kSocketsMax};
  Inbox inbox;
  CurvePair keys = curve_pair_of(kAnnaKey);
  NameResolver names;
  Dialler dialler{context, inbox, keys, names};
  ZmqLink bert = open_link(kBertKey);
  Line line{dialler, bert.local_address(), 1};
  std::optional<SlotLease> slot;

  LineToBert() {
    PeerAddress anna;
    anna.key = kAnnaKey.key();
    connect(bert, anna, false);
    line.open_bulk(dialler);
  }
  // Bert lets in whoever knocks, and takes no payload.
  bool stands(std::uint8_t connection) {
    return eventually([&] {
      CHECK(!bert.try_receive(steady_now(), false).has_value());
      return bulk(connection).writable();
    });
  }
  Port& bulk(std::uint8_t connection) { return line.port({PortKind::kBulk, 1, connection}); }
  // Payloads to Bert, who does not read, until there is no room for some time.
  int fill_line() {
    int sent = 0;
    while (eventually([&] { return line.writable_bulk() != nullptr; }, 0.3)) {
      zmq::message_t frame(kBytes);
      sent += line.writable_bulk()->try_send(frame);
    }
    return sent;
  }
  // The line has more connections, and Bert knows whose they are.
  void introduce() {
    while (line.bulk_connections() < kConnections) line.widen_bulk(dialler);
    line.introduce_bulk(encode(kAnnaKey.id(), BulkHello{}));
    for (std::uint8_t i = 0; i < kConnections; ++i) REQUIRE(stands(i));
    CHECK(!line.flush());
    CHECK(!eventually([&] { return bert.try_receive(steady_now()).has_value(); }, 0.3));
  }
  bool bert_sends() {
    if (!slot) slot = pool.try_acquire();
    return slot && bert.try_send_bulk(kAnnaKey.id(), Push{}, slot, kBytes) == Sending::kSent;
  }
  int take(std::uint8_t connection) {
    int count = 0;
    for (zmq::message_t frame; bulk(connection).try_receive(frame);) ++count;
    return count;
  }
};

}  // namespace

TEST_CASE("what does not fit in one connection goes over the next") {
  LineToBert pair;
  REQUIRE(pair.stands(0));
  const int over_one = pair.fill_line();
  CHECK(over_one > 0);
  pair.line.widen_bulk(pair.dialler);
  REQUIRE(pair.stands(1));
  CHECK(pair.fill_line() > over_one / 2);
}

TEST_CASE("payloads come back over all the connections that said whose they are") {
  LineToBert pair;
  pair.introduce();
  int sent = 0;
  while (eventually([&] { return pair.bert_sends(); }, 0.3)) ++sent;
  std::array<int, kConnections> came{};
  CHECK(eventually([&] {
    for (std::uint8_t i = 0; i < kConnections; ++i) came[i] += pair.take(i);
    return came[0] + came[1] + came[2] == sent;
  }));
  for (const int frames : came) CHECK(frames > 0);
}

TEST_CASE("a way back that has ended is forgotten and the others carry on") {
  LineToBert pair;
  pair.introduce();
  for (const std::uint8_t lost : {std::uint8_t{0}, std::uint8_t{2}}) {
    zmq::socket_t& socket = pair.bulk(lost).socket();
    socket.disconnect(socket.get(zmq::sockopt::last_endpoint));
  }
  int came = 0;
  CHECK(eventually([&] {
    static_cast<void>(pair.bert_sends());
    came += pair.take(1);
    return came >= 20;
  }));
}

TEST_CASE("a connection for payloads that ZeroMQ has given up is dialled again") {
  LineToBert pair;
  REQUIRE(pair.stands(0));
  const auto look = [&](Instant at) {
    static_cast<void>(pair.bert.try_receive(steady_now(), false));
    static_cast<void>(pair.line.read_monitors());
    pair.line.note_lost_bulk(at);
    static_cast<void>(pair.line.mend_bulk(pair.dialler, at));
  };
  const Instant start = steady_now();
  zmq::message_t greeting(1);
  REQUIRE(eventually([&] { return static_cast<void>(look(start)), pair.line.try_send(greeting); }));
  zmq::socket_t& socket = pair.bulk(0).socket();
  socket.disconnect(socket.get(zmq::sockopt::last_endpoint));  // as behind a box that did not open
  REQUIRE(eventually([&] { return look(start), !pair.bulk(0).writable(); }));
  CHECK(!eventually([&] { return look(start), pair.bulk(0).writable(); }, 0.5));
  int seconds = 0;
  CHECK(eventually([&] {
    look(start + std::chrono::seconds(++seconds));
    return pair.bulk(0).writable();
  }));
  CHECK(seconds >= 15);
}

}  // namespace starling::gossip
