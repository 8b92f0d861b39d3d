#include "gossip/net/link_tcp.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <optional>
#include <string>

#include "tests/gossip/net/net_support.h"

namespace starling::gossip {
namespace {

constexpr int kSourceDescriptor = 2;  // ZMQ_SRCFD

struct TwoSockets {
  zmq::context_t context{1};
  zmq::socket_t router{context, zmq::socket_type::router};
  std::optional<zmq::socket_t> dealer;

  TwoSockets() {
    router.bind("tcp://127.0.0.1:*");
    connect();
  }
  void connect() {
    dealer.emplace(context, zmq::socket_type::dealer);
    dealer->set(zmq::sockopt::linger, 0);
    dealer->connect(router.get(zmq::sockopt::last_endpoint));
  }
  // There and back, so that all of it is acknowledged; what came back.
  zmq::message_t round(std::size_t bytes) {
    const std::string text(bytes, 'x');
    zmq::message_t route, frame;
    static_cast<void>(dealer->send(zmq::buffer(text)));
    static_cast<void>(router.recv(route));
    static_cast<void>(router.recv(frame));
    static_cast<void>(router.send(route, zmq::send_flags::sndmore));
    static_cast<void>(router.send(frame, zmq::send_flags::none));
    static_cast<void>(dealer->recv(frame));
    return frame;
  }
};

// UINT64_MAX or UINT32_MAX, by the kernel: no limit.
std::uint64_t pacing_of(const zmq::message_t& message) {
  std::uint64_t rate = 0;
  socklen_t size = sizeof rate;
  REQUIRE(::getsockopt(::zmq_msg_get(message.handle(), kSourceDescriptor), SOL_SOCKET,
                       SO_MAX_PACING_RATE, &rate, &size) == 0);
  return rate;
}

}  // namespace

TEST_CASE("what is under a connection tells its round trips and what arrived") {
  TwoSockets two;
  TcpPath path;
  CHECK(!path.look().has_value());
  CHECK(path.follow(two.round(10)));
  const auto before = path.look();
  REQUIRE(before.has_value());
  CHECK(before->round_trip > Duration::zero());
  CHECK(!path.follow(two.round(100'000)));
  CHECK(eventually([&] { return path.look()->delivered >= before->delivered + 100'000; }));
}

TEST_CASE("the kernel is told the rate, and a new connection begins without one") {
  TwoSockets two;
  TcpPath path;
  path.pace(1e6);  // nothing is known yet
  CHECK(path.follow(two.round(10)));
  path.pace(1e6);
  CHECK(pacing_of(two.round(10)) == 1'000'000);
  path.pace(2e6);
  CHECK(pacing_of(two.round(10)) == 2'000'000);
  path.pace(std::nullopt);
  CHECK(pacing_of(two.round(10)) >= UINT32_MAX);
  path.pace(2e6);
  two.connect();
  CHECK(path.follow(two.round(10)));
  CHECK(pacing_of(two.round(10)) >= UINT32_MAX);
  path.pace(2e6);
  CHECK(pacing_of(two.round(10)) == 2'000'000);
}

TEST_CASE("a connection that has gone tells nothing and nothing else is paced in its place") {
  TwoSockets two;
  TcpPath path;
  CHECK(path.follow(two.round(10)));
  const TcpPath old = path;
  two.dealer.reset();
  CHECK(eventually([&] { return !old.look().has_value(); }));
  two.connect();  // most likely by the same descriptor
  path.pace(1e6);
  CHECK(pacing_of(two.round(10)) >= UINT32_MAX);
  CHECK(!path.look().has_value());
}

TEST_CASE("a message that came over no connection is not followed") {
  TcpPath path;
  CHECK(!path.follow(zmq::message_t("x", 1)));
  CHECK(!path.look().has_value());
}

TEST_CASE("a connection that is ended from below is made again by itself, and no other is hurt") {
  TwoSockets two;
  const int descriptor = source_descriptor(two.round(10));
  const std::uint64_t socket = socket_number(descriptor);
  REQUIRE(socket != 0);
  CHECK(bytes_taken(descriptor, socket).value() > 10);
  CHECK(!bytes_taken(descriptor, socket + 1).has_value());
  TcpEnder ender;
  ender.end(descriptor, socket + 1);  // the number means another socket now
  ender.end(100'000, socket);         // or none
  CHECK(source_descriptor(two.round(10)) == descriptor);
  ender.end(descriptor, socket);
  CHECK(eventually([&] { return socket_number(descriptor) != socket; }));
  const zmq::message_t again = two.round(10);
  CHECK(socket_number(source_descriptor(again)) != socket);
  ender.end(descriptor, socket);
  CHECK(source_descriptor(two.round(10)) == source_descriptor(again));
}

}  // namespace starling::gossip
