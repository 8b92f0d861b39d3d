#include "gossip/link_tcp.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>

namespace starling::gossip {
namespace {

// zmq.h counts it among the options that may go one day; then nothing is paced.
constexpr int kSourceDescriptor = 2;  // ZMQ_SRCFD

template <class T>
bool get_option(int descriptor, int level, int name, T& value) {
  socklen_t size = sizeof value;
  return ::getsockopt(descriptor, level, name, &value, &size) == 0;
}

std::uint64_t socket_number(int descriptor) {
  std::uint64_t number = 0;
  return get_option(descriptor, SOL_SOCKET, SO_COOKIE, number) ? number : 0;
}

}  // namespace

bool TcpPath::follow(const zmq::message_t& message) {
  return follow(::zmq_msg_get(message.handle(), kSourceDescriptor));
}

bool TcpPath::follow(int descriptor) {
  if (descriptor < 0) return false;
  const std::uint64_t socket = socket_number(descriptor);
  if (descriptor == descriptor_ && socket == socket_) return false;
  descriptor_ = descriptor;
  socket_ = socket;
  paced_.reset();
  return true;
}

std::optional<TcpPath::Look> TcpPath::look() const {
  tcp_info info{};
  if (socket_ == 0 || socket_number(descriptor_) != socket_) return std::nullopt;
  if (!get_option(descriptor_, IPPROTO_TCP, TCP_INFO, info) || info.tcpi_rtt == 0) {
    return std::nullopt;
  }
  Look look;
  look.round_trip = std::chrono::microseconds(info.tcpi_rtt);
  look.delivered = info.tcpi_bytes_acked;
  look.busy = std::chrono::microseconds(info.tcpi_busy_time);
  look.held = std::chrono::microseconds(info.tcpi_rwnd_limited + info.tcpi_sndbuf_limited);
  return look;
}

// The kernel then sends packet by packet at that rate, whatever the congestion control would do.
void TcpPath::pace(std::optional<double> bytes_per_second) {
  if (bytes_per_second == paced_ || socket_ == 0 || socket_number(descriptor_) != socket_) return;
  paced_ = bytes_per_second;
  const auto rate =
      bytes_per_second ? static_cast<std::uint64_t>(std::llround(*bytes_per_second)) : UINT64_MAX;
  static_cast<void>(::setsockopt(descriptor_, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate));
}

void PacedPath::tend(Instant now, LineUse& use) {
  const auto look = tcp_.look();
  if (!look) return;
  pacer_.update(now, *look);
  tcp_.pace(pacer_.rate());
  if (last_) {
    use.delivered += look->delivered - last_->delivered;
    use.busy += look->busy - last_->busy;
    use.held += look->held - last_->held;
  }
  use.round_trip = std::max(use.round_trip, look->round_trip);
  last_ = look;
}

}  // namespace starling::gossip
