// The sockets of ZmqLink: how each is made, and calls that never block.
//
// Every option is set here, with its reason. Calls repeat themselves after a signal (EINTR) and
// throw zmq::error_t otherwise; ZmqLink catches it. Included by link*.cpp and tests only. Thread: a
// socket belongs to the thread that made it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <zmq.hpp>

#include "gossip/messages.h"
#include "gossip/net/identity.h"

namespace starling::gossip {

enum class LinkLane : std::uint8_t { kControl, kBulk };

// Control and bulk. Neither ever sees a name: resolving one would block all lines of its lane.
inline constexpr int kIoThreads = 2;
// Two DEALERs for each of 1024 peers and of those only greeted, monitors, the ROUTERs.
inline constexpr int kSocketsMax = 8192;

// What a socket needs to prove who it is.
struct CurvePair {
  CurveKey secret_key{};
  CurveKey public_key{};
};
inline CurvePair curve_pair_of(const Identity& identity) {
  return {identity.curve_secret(), identity.curve_public()};
}

// "tcp://host:port", with any free port for 0.
std::string endpoint(std::string_view host, std::uint16_t port);

// A ROUTER, not bound yet, that lets in whom the door lets in.
zmq::socket_t make_listener(zmq::context_t& context, LinkLane lane, std::string_view host,
                            const CurvePair& keys);
std::uint16_t bound_port(const zmq::socket_t& socket);
// What a frame takes on the wire: CURVE's box around it (RFC 26), and ZMTP's head.
std::uint64_t wire_bytes(std::size_t frame_bytes);
// How many bytes ZeroMQ can have taken from one connection whose messages are single frames and
// have not come out: none of them is whole, or they wait for us.
struct HeldBytes {
  std::uint64_t unfinished_max = 0;
  std::uint64_t waiting_max = 0;
};
HeldBytes held_bytes(LinkLane lane);
// What the door is told about a handshake on this lane.
std::string_view door_domain(LinkLane lane);

// A DEALER, not connected yet, that will talk to nobody but the owner of `server`.
zmq::socket_t make_dialler(zmq::context_t& context, LinkLane lane, const CurvePair& keys,
                           const CurveKey& server);
// An IP literal. Returns at once, and ZeroMQ dials until it is told to stop.
void dial(zmq::socket_t& dialler, std::string_view address, std::uint16_t port);
void stop_dialling(zmq::socket_t& dialler, std::string_view address, std::uint16_t port);

// The socket's ZMQ_POLLIN and ZMQ_POLLOUT, after it has handled what happened to its connections.
int events(zmq::socket_t& socket);
inline std::span<const std::byte> view(const zmq::message_t& message) {
  return {static_cast<const std::byte*>(message.data()), message.size()};
}
bool try_send(zmq::socket_t& socket, zmq::message_t& message, zmq::send_flags flags);
bool try_receive(zmq::socket_t& socket, zmq::message_t& message);

}  // namespace starling::gossip
