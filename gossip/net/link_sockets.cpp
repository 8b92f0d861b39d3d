#include "gossip/net/link_sockets.h"

#include <cerrno>

#include "base/assert.h"
#include "base/host.h"
#include "gossip/wire/wire.h"

namespace starling::gossip {
namespace {

constexpr int kHandshakeMs = 8000;
constexpr int kReconnectMs = 500;
// TCP by itself doubles its waits: after a minute's cut it may try again a minute later.
constexpr int kConnectMs = 5000;

// ZMQ_ZAP_ENFORCE_DOMAIN. The library has it; Debian's header hides its name behind DRAFT.
constexpr int kZapEnforceDomain = 93;

constexpr std::uint64_t kControlThread = 1;
constexpr std::uint64_t kBulkThread = 2;

// What differs between the lanes. A high-water mark counts messages of one connection: the bulk
// one is small so that payloads wait in slots, where a disconnect can drop them, but deep enough
// to keep the connection busy between two wake-ups. The size limit leaves some room above the
// largest message, so that what is only slightly too large is counted before it is refused.
struct LaneOptions {
  std::int64_t frame_bytes_max;
  int high_water_mark;
  int silence_max_ms;  // unacknowledged bytes for this long end the connection
  int type_of_service;
  int backlog;
  std::uint64_t io_thread;
};
constexpr LaneOptions kControlOptions{
    .frame_bytes_max = static_cast<std::int64_t>(kControlFrameBytesMax) + 4096,
    .high_water_mark = 256,
    .silence_max_ms = 20'000,
    .type_of_service = 0x48,
    .backlog = 256,
    .io_thread = kControlThread};
constexpr LaneOptions kBulkOptions{
    .frame_bytes_max = static_cast<std::int64_t>(kBulkFrameBytesMax) + 4096,
    .high_water_mark = 4,
    .silence_max_ms = 60'000,
    .type_of_service = 0x20,
    .backlog = 64,
    .io_thread = kBulkThread};

const LaneOptions& options_of(LinkLane lane) {
  return lane == LinkLane::kControl ? kControlOptions : kBulkOptions;
}

bool is_ipv6(std::string_view host) { return host.find(':') != std::string_view::npos; }

// ZeroMQ's heartbeats stay off: they kill links that are merely slow, and prove only that the
// library's thread lives. Ping is ours. LINGER is 0, or closing the context could wait for ever.
zmq::socket_t make_socket(zmq::context_t& context, zmq::socket_type type, const LaneOptions& lane) {
  zmq::socket_t socket(context, type);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::maxmsgsize, lane.frame_bytes_max);
  socket.set(zmq::sockopt::sndhwm, lane.high_water_mark);
  socket.set(zmq::sockopt::rcvhwm, lane.high_water_mark);
  socket.set(zmq::sockopt::handshake_ivl, kHandshakeMs);
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, 20);
  socket.set(zmq::sockopt::tcp_keepalive_intvl, 5);
  socket.set(zmq::sockopt::tcp_keepalive_cnt, 4);
  socket.set(zmq::sockopt::tcp_maxrt, lane.silence_max_ms);
  socket.set(zmq::sockopt::tos, lane.type_of_service);
  return socket;
}

zmq::const_buffer buffer_of(const CurveKey& key) { return zmq::buffer(key.data(), key.size()); }

// A signal may interrupt any call; nothing has happened then.
template <class Call>
auto retry_interrupted(Call&& call) {
  for (;;) {
    try {
      return call();
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
  }
}

}  // namespace

std::string endpoint(std::string_view host, std::uint16_t port) {
  const std::string name = is_ipv6(host) ? "[" + std::string(host) + "]" : std::string(host);
  return "tcp://" + name + ":" + (port == 0 ? "*" : std::to_string(port));
}

// A CURVE server lets in any key when nobody answers for the door, unless it is told not to: the
// domain and option 93 do that, and a test at start-up shows that they did. MANDATORY, so that a
// message to a connection that has gone is an error and not silence.
zmq::socket_t make_listener(zmq::context_t& context, LinkLane lane, std::string_view host,
                            const CurvePair& keys) {
  const LaneOptions& options = options_of(lane);
  zmq::socket_t socket = make_socket(context, zmq::socket_type::router, options);
  socket.set(zmq::sockopt::ipv6, is_ipv6(host));
  socket.set(zmq::sockopt::backlog, options.backlog);
  socket.set(zmq::sockopt::affinity, options.io_thread);
  socket.set(zmq::sockopt::router_mandatory, true);
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_secretkey, buffer_of(keys.secret_key));
  socket.set(zmq::sockopt::zap_domain, std::string(door_domain(lane)));
  const int enforce = 1;
  if (::zmq_setsockopt(socket.handle(), kZapEnforceDomain, &enforce, sizeof enforce) != 0) {
    throw zmq::error_t();
  }
  return socket;
}

std::uint64_t wire_bytes(std::size_t frame_bytes) {
  constexpr std::uint64_t kBox = 33;  // name, nonce, authenticator, flags
  const std::uint64_t body = frame_bytes + kBox;
  return body + (body > 255 ? 9 : 2);
}

// Waiting: the high-water mark, one that the ROUTER has at hand, one that found no room in the
// queue. Unfinished: the one that is being read, and what the reader took in one gulp of 8 KiB; and
// as much again.
HeldBytes held_bytes(LinkLane lane) {
  constexpr std::uint64_t kGulp = 8192;
  const LaneOptions& options = options_of(lane);
  const auto frame = wire_bytes(static_cast<std::size_t>(options.frame_bytes_max));
  const std::uint64_t unfinished = 2 * (frame + kGulp);
  const auto waiting = static_cast<std::uint64_t>(options.high_water_mark) + 2;
  return {.unfinished_max = unfinished, .waiting_max = waiting * frame + unfinished};
}

std::string_view door_domain(LinkLane lane) {
  return lane == LinkLane::kControl ? "control" : "bulk";
}

std::uint16_t bound_port(const zmq::socket_t& socket) {
  const std::string address = socket.get(zmq::sockopt::last_endpoint);
  return static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
}

zmq::socket_t make_dialler(zmq::context_t& context, LinkLane lane, const CurvePair& keys,
                           const CurveKey& server) {
  const LaneOptions& options = options_of(lane);
  zmq::socket_t socket = make_socket(context, zmq::socket_type::dealer, options);
  socket.set(zmq::sockopt::affinity, options.io_thread);
  socket.set(zmq::sockopt::immediate, true);
  socket.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
  socket.set(zmq::sockopt::connect_timeout, kConnectMs);
  socket.set(zmq::sockopt::curve_serverkey, buffer_of(server));
  socket.set(zmq::sockopt::curve_publickey, buffer_of(keys.public_key));
  socket.set(zmq::sockopt::curve_secretkey, buffer_of(keys.secret_key));
  return socket;
}

void dial(zmq::socket_t& dialler, std::string_view address, std::uint16_t port) {
  STARLING_ASSERT(is_ip_literal(address));
  dialler.set(zmq::sockopt::ipv6, is_ipv6(address));  // of the connections that follow
  dialler.connect(endpoint(address, port));
}

void stop_dialling(zmq::socket_t& dialler, std::string_view address, std::uint16_t port) {
  // It fails where nothing is dialled any more.
  static_cast<void>(::zmq_disconnect(dialler.handle(), endpoint(address, port).c_str()));
}

int events(zmq::socket_t& socket) {
  return retry_interrupted([&socket] { return socket.get(zmq::sockopt::events); });
}

bool try_send(zmq::socket_t& socket, zmq::message_t& message, zmq::send_flags flags) {
  return retry_interrupted([&] { return socket.send(message, flags); }).has_value();
}

bool try_receive(zmq::socket_t& socket, zmq::message_t& message) {
  return retry_interrupted([&] { return socket.recv(message, zmq::recv_flags::dontwait); })
      .has_value();
}

}  // namespace starling::gossip
