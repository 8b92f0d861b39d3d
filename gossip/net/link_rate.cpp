#include "gossip/net/link_rate.h"

#include <array>
#include <chrono>
#include <optional>
#include <vector>
#include <zmq.hpp>

#include "gossip/net/link_sockets.h"
#include "gossip/net/real_clock.h"
#include "gossip/wire/wire.h"

namespace starling::gossip {
namespace {

constexpr int kWaiting = 4;  // payloads, at either end
constexpr std::chrono::milliseconds kTurn{20};
constexpr Duration kFirstMax = std::chrono::seconds(5);  // until the first has arrived

void encipher(zmq::socket_t& server, zmq::socket_t& client) {
  const CurvePair theirs = curve_pair_of(Identity::draw());
  const CurvePair own = curve_pair_of(Identity::draw());
  server.set(zmq::sockopt::curve_server, true);
  server.set(zmq::sockopt::curve_secretkey, zmq::buffer(theirs.secret_key));
  client.set(zmq::sockopt::curve_serverkey, zmq::buffer(theirs.public_key));
  client.set(zmq::sockopt::curve_publickey, zmq::buffer(own.public_key));
  client.set(zmq::sockopt::curve_secretkey, zmq::buffer(own.secret_key));
}

struct Pair {
  Pair(zmq::context_t& context, Cipher cipher)
      : router(context, zmq::socket_type::router), dealer(context, zmq::socket_type::dealer) {
    router.set(zmq::sockopt::rcvhwm, kWaiting);
    router.set(zmq::sockopt::linger, 0);
    dealer.set(zmq::sockopt::sndhwm, kWaiting);
    dealer.set(zmq::sockopt::linger, 0);
    if (cipher == Cipher::kCurve) encipher(router, dealer);
    router.bind("tcp://127.0.0.1:*");
    dealer.connect(router.get(zmq::sockopt::last_endpoint));
  }
  zmq::socket_t router, dealer;
};

// Takes what has arrived; the routing id before each payload is not counted.
std::size_t take(zmq::socket_t& router) {
  std::size_t bytes = 0;
  for (zmq::message_t frame; try_receive(router, frame);) {
    if (!frame.more()) bytes += frame.size();
  }
  return bytes;
}

double measure(Pair& pair, std::vector<std::byte>& payload, Duration length) {
  const Instant begun = steady_now();
  std::optional<Instant> first;
  double bytes = 0;
  while (true) {
    bool sent = true;
    while (sent) {
      zmq::message_t message(payload.data(), payload.size(), nullptr);  // sent as it lies there
      sent = try_send(pair.dealer, message, zmq::send_flags::dontwait);
    }
    std::array<zmq::pollitem_t, 2> items{
        {{pair.router.handle(), 0, ZMQ_POLLIN, 0}, {pair.dealer.handle(), 0, ZMQ_POLLOUT, 0}}};
    zmq::poll(items.data(), items.size(), kTurn);
    const std::size_t arrived = take(pair.router);
    const Instant now = steady_now();
    if (first) bytes += static_cast<double>(arrived);
    if (!first && arrived > 0) first = now;
    if (first && now - *first >= length) return bytes / to_seconds(now - *first);
    if (!first && now - begun >= kFirstMax) return 0;
  }
}

}  // namespace

Result<double> loopback_rate(Cipher cipher, Duration length) {
  std::vector<std::byte> payload(kBulkFrameBytesMax, std::byte{0x5A});  // outlives the context
  try {
    zmq::context_t context{2};
    Pair pair(context, cipher);
    const double rate = measure(pair, payload, length);
    if (rate > 0) return rate;
    return Error(ErrorCode::kUnavailable, "nothing arrived over loopback");
  } catch (const zmq::error_t& error) {
    return Error(ErrorCode::kUnavailable, error.what());
  }
}

}  // namespace starling::gossip
