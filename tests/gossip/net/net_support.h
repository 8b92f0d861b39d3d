// For tests with real sockets on loopback: bounded waiting, and a bare TCP connection.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "base/assert.h"
#include "base/cpu_device.h"
#include "gossip/net/link.h"
#include "gossip/net/link_sockets.h"
#include "gossip/net/real_clock.h"

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

inline LinkConfig link_config(const Identity& identity) {
  return {.identity = identity, .run = {.run = 1}, .allow = {}, .secret = {}};
}

inline ZmqLink open_link(const Identity& identity) {
  return ZmqLink::open(link_config(identity)).value();
}

// The same identity for the same number, in every test.
inline Identity test_identity(std::uint8_t number) {
  for (SeedBytes seed{number};; ++seed[1]) {
    if (auto identity = Identity::from_seed(seed)) return *identity;
  }
}

// The same peer again, where it was.
inline Result<ZmqLink> reopen(const Identity& identity, const PeerAddress& address) {
  LinkConfig config = link_config(identity);
  config.control_port = address.control_port;
  config.bulk_port = address.bulk_port;
  return ZmqLink::open(config);
}

inline bool connect(ZmqLink& link, const PeerAddress& address, bool dialable = true) {
  return link.connect(steady_now(), {id_of(address.key), address, kVersions.max, dialable});
}

inline Ping ping(std::uint64_t nonce) { return {nonce, {}, {}, {}}; }

// The next arrival within some seconds.
inline std::optional<Arrival> wait_for_arrival(ZmqLink& link, ZmqLink& sender,
                                               double seconds = 10) {
  std::optional<Arrival> arrival;
  static_cast<void>(eventually(
      [&] {
        sender.flush(steady_now());
        arrival = link.try_receive(steady_now());
        return arrival.has_value();
      },
      seconds));
  return arrival;
}

inline std::string tcp(const PeerAddress& address, std::uint16_t port) {
  return "tcp://" + std::string(host(address)) + ":" + std::to_string(port);
}

// A socket with a key that says what it likes, to the control or the bulk port.
struct BareSender {
  zmq::context_t context{1};
  zmq::socket_t socket{context, zmq::socket_type::dealer};

  BareSender(const PeerAddress& address, std::uint16_t port, const Identity& identity) {
    const CurvePair keys = curve_pair_of(identity);
    socket = make_dialler(context, LinkLane::kControl, keys, curve_key_of(address.key).value());
    socket.set(zmq::sockopt::immediate, false);
    socket.set(zmq::sockopt::sndhwm, 0);
    socket.connect(tcp(address, port));
  }
  void send(std::span<const std::byte> bytes, zmq::send_flags flags = zmq::send_flags::none) {
    static_cast<void>(socket.send(zmq::const_buffer(bytes.data(), bytes.size()), flags));
  }
};

inline Buffer host_memory(CpuDevice& device, std::size_t bytes) {
  return device.allocate(MemoryKind::kHostPinned, bytes).value();
}

// As long as it lives this process gets no more descriptors.
class NoDescriptors {
 public:
  NoDescriptors() {
    STARLING_ASSERT(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const int free = ::dup(STDERR_FILENO);  // the lowest
    STARLING_ASSERT(free >= 0);
    ::close(free);
    const rlimit none{.rlim_cur = static_cast<rlim_t>(free), .rlim_max = before_.rlim_max};
    STARLING_ASSERT(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

// While it lives, each descriptor is larger than those before it: no gap is left among them.
class RisingDescriptors {
 public:
  RisingDescriptors() {
    int highest = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      highest = std::max(highest, std::stoi(entry.path().filename().string()));
    }
    do {
      held_.push_back(::dup(STDERR_FILENO));
    } while (held_.back() >= 0 && held_.back() < highest);
  }
  ~RisingDescriptors() {
    for (const int descriptor : held_) ::close(descriptor);
  }
  RisingDescriptors(const RisingDescriptors&) = delete;
  RisingDescriptors& operator=(const RisingDescriptors&) = delete;

 private:
  std::vector<int> held_;
};

// A port of this machine that refuses whoever dials it, and that nobody else gets meanwhile.
class ClosedPort {
 public:
  explicit ClosedPort(std::uint16_t port = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    socklen_t size = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    STARLING_ASSERT(::bind(socket_, plain, size) == 0);
    STARLING_ASSERT(::getsockname(socket_, plain, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~ClosedPort() { ::close(socket_); }
  ClosedPort(const ClosedPort&) = delete;
  ClosedPort& operator=(const ClosedPort&) = delete;

  std::uint16_t port() const { return port_; }

 protected:
  int socket_;

 private:
  std::uint16_t port_ = 0;
};

// One that lets in whoever dials it, though no peer is behind it.
class Listener : public ClosedPort {
 public:
  explicit Listener(std::uint16_t port = 0) : ClosedPort(port) {
    STARLING_ASSERT(::listen(socket_, 16) == 0);
  }

  bool was_called() const {
    const int caller = ::accept(socket_, nullptr, nullptr);
    if (caller >= 0) ::close(caller);
    return caller >= 0;
  }
};

// use(descriptor) for every TCP connection of this process whose own end is this port.
template <class Use>
void for_connections_at(std::uint16_t port, Use&& use) {
  constexpr int kDescriptorsMax = 1024;
  for (int descriptor = 0; descriptor < kDescriptorsMax; ++descriptor) {
    sockaddr_in end{};
    socklen_t size = sizeof end;
    auto* const plain = reinterpret_cast<sockaddr*>(&end);
    if (::getsockname(descriptor, plain, &size) != 0 || end.sin_family != AF_INET) continue;
    if (end.sin_port != htons(port)) continue;
    size = sizeof end;
    if (::getpeername(descriptor, plain, &size) == 0) use(descriptor);  // or it listens
  }
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
  // The other side has hung up.
  bool ended() {
    std::array<std::byte, 256> heard{};
    const ssize_t count = ::recv(socket_, heard.data(), heard.size(), MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN);
  }

 private:
  int socket_;
};

}  // namespace starling::gossip
