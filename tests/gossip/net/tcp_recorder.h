// TcpRecorder: stands between one TCP connection and its server on this machine, keeps what the
// client says, and can say more in its name. For tests of replays. One connection; pump() moves
// what there is to move.
#pragma once

#include <fcntl.h>
#include <poll.h>

#include <array>
#include <vector>

#include "tests/gossip/net/net_support.h"

namespace starling::gossip {

class TcpRecorder {
 public:
  explicit TcpRecorder(std::uint16_t server) : server_(server) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    STARLING_ASSERT(::bind(listener_, raw, size) == 0);
    STARLING_ASSERT(::listen(listener_, 1) == 0);
    STARLING_ASSERT(::getsockname(listener_, raw, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~TcpRecorder() {
    for (const int socket : {listener_, client_, upstream_}) {
      if (socket >= 0) ::close(socket);
    }
  }
  TcpRecorder(const TcpRecorder&) = delete;
  TcpRecorder& operator=(const TcpRecorder&) = delete;

  std::uint16_t port() const { return port_; }
  const std::vector<std::byte>& recorded() const { return recorded_; }
  // What the client said last, in one go.
  const std::vector<std::byte>& last_chunk() const { return last_chunk_; }

  void pump() {
    if (client_ < 0 && readable(listener_)) {
      client_ = ::accept(listener_, nullptr, nullptr);
      upstream_ = ::socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in address = loopback(server_);
      auto* raw = reinterpret_cast<sockaddr*>(&address);
      STARLING_ASSERT(::connect(upstream_, raw, sizeof address) == 0);
    }
    if (client_ < 0) return;
    const std::vector<std::byte> said = move(client_, upstream_);
    if (!said.empty()) last_chunk_ = said;
    recorded_.insert(recorded_.end(), said.begin(), said.end());
    static_cast<void>(move(upstream_, client_));
  }
  void inject(std::span<const std::byte> bytes) {
    static_cast<void>(::send(upstream_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }

 private:
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  static bool readable(int socket) {
    pollfd item{socket, POLLIN, 0};
    return ::poll(&item, 1, 0) == 1;
  }
  static std::vector<std::byte> move(int from, int to) {
    std::vector<std::byte> bytes;
    std::array<std::byte, 65536> chunk{};
    while (readable(from)) {
      const ssize_t count = ::recv(from, chunk.data(), chunk.size(), MSG_DONTWAIT);
      if (count <= 0) break;
      bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + count);
    }
    if (!bytes.empty()) static_cast<void>(::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL));
    return bytes;
  }

  std::uint16_t server_, port_ = 0;
  int listener_ = -1, client_ = -1, upstream_ = -1;
  std::vector<std::byte> recorded_, last_chunk_;
};

}  // namespace starling::gossip
