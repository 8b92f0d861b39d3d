// The sockets of ZmqLink: how each is made, and calls that never block.
//
// Every option is set here, with its reason. Calls repeat themselves after a signal (EINTR) and
// throw zmq::error_t otherwise; ZmqLink catches it. Included by link.cpp only. Thread: a socket
// belongs to the thread that made it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <zmq.hpp>

#include "gossip/messages.h"

namespace starling::gossip {

enum class LinkLane : std::uint8_t { kControl, kBulk };

// Control, bulk, and one for names, which may block in the resolver.
inline constexpr int kIoThreads = 3;
// Two DEALERs for each of 1024 peers, the unnamed lines, the ROUTERs.
inline constexpr int kSocketsMax = 4096;

// "tcp://host:port", with any free port for 0.
std::string endpoint(std::string_view host, std::uint16_t port);

// A bound ROUTER.
zmq::socket_t listen(zmq::context_t& context, LinkLane lane, std::string_view host,
                     std::uint16_t port);
std::uint16_t bound_port(const zmq::socket_t& socket);

// A DEALER that is on its way to `address`.
zmq::socket_t dial(zmq::context_t& context, LinkLane lane, const PeerAddress& address);

// These also let the socket handle what happened to its connections meanwhile.
bool ready_to_send(zmq::socket_t& socket);
bool ready_to_receive(zmq::socket_t& socket);
bool try_send(zmq::socket_t& socket, zmq::message_t& message);  // false: untouched
bool try_receive(zmq::socket_t& socket, zmq::message_t& message);

}  // namespace starling::gossip
