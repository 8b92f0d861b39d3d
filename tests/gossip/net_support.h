// For tests with real sockets on loopback: bounded waiting, and a bare TCP connection.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>

#include "base/assert.h"
#include "base/cpu_device.h"
#include "gossip/link.h"

namespace starling::gossip {

// Calls `done` until it holds; false after `seconds`.
template <class Predicate>
bool eventually(Predicate&& done, double seconds = 10) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

inline ZmqLink open_link(PeerId self) {
  return ZmqLink::open({.self = self, .host = "127.0.0.1"}).value();
}

inline std::string tcp(const PeerAddress& address, std::uint16_t port) {
  return "tcp://" + std::string(host(address)) + ":" + std::to_string(port);
}

inline Buffer host_memory(CpuDevice& device, std::size_t bytes) {
  return device.allocate(MemoryKind::kHostPinned, bytes).value();
}

// A TCP connection to a port of this machine, from a program that is no peer.
class RawConnection {
 public:
  explicit RawConnection(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    STARLING_ASSERT(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  ~RawConnection() { ::close(socket_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  // The other side may have hung up already; that is its right.
  void send(std::span<const std::byte> bytes) {
    static_cast<void>(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }

 private:
  int socket_;
};

}  // namespace starling::gossip
