#include "gossip/net/link_tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/assert.h"

namespace starling::gossip {
namespace {

// zmq.h counts it among the options that may go one day; then nothing is paced.
constexpr int kSourceDescriptor = 2;  // ZMQ_SRCFD

template <class T>
bool get_option(int descriptor, int level, int name, T& value) {
  socklen_t size = sizeof value;
  return ::getsockopt(descriptor, level, name, &value, &size) == 0;
}

}  // namespace

std::uint64_t socket_number(int descriptor) {
  std::uint64_t number = 0;
  return get_option(descriptor, SOL_SOCKET, SO_COOKIE, number) ? number : 0;
}

bool sockets_have_numbers() {
  static const bool they_have = [] {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool has = socket_number(socket) != 0;
    if (socket >= 0) ::close(socket);
    return has;
  }();
  return they_have;
}

int source_descriptor(const zmq::message_t& message) {
  return ::zmq_msg_get(message.handle(), kSourceDescriptor);
}

std::string peer_host(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::getpeername(descriptor, raw, &size) != 0) return {};
  const void* bytes = address.ss_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(raw)->sin_addr)
                          : &reinterpret_cast<sockaddr_in6*>(raw)->sin6_addr;
  return ::inet_ntop(address.ss_family, bytes, text.data(), text.size()) == nullptr ? ""
                                                                                    : text.data();
}

// First what has come and then what of it is unread: if more is read in between, the difference is
// smaller than it is by then.
std::optional<std::uint64_t> bytes_taken(int descriptor, std::uint64_t socket) {
  tcp_info info{};
  int unread = 0;
  if (socket_number(descriptor) != socket) return std::nullopt;
  if (!get_option(descriptor, IPPROTO_TCP, TCP_INFO, info)) return std::nullopt;
  if (::ioctl(descriptor, FIONREAD, &unread) != 0) return std::nullopt;
  const auto left = static_cast<std::uint64_t>(unread);
  return info.tcpi_bytes_received - std::min<std::uint64_t>(info.tcpi_bytes_received, left);
}

TcpEnder::TcpEnder() : idle_(::eventfd(0, EFD_CLOEXEC)), grip_(::fcntl(idle_, F_DUPFD_CLOEXEC, 0)) {
  STARLING_ASSERT(idle_ >= 0);
  STARLING_ASSERT(grip_ >= 0);
}

TcpEnder::~TcpEnder() {
  ::close(grip_);
  ::close(idle_);
}

void TcpEnder::end(int descriptor, std::uint64_t socket) {
  if (::dup3(descriptor, grip_, O_CLOEXEC) < 0) return;  // it has been closed
  if (socket_number(grip_) == socket) static_cast<void>(::shutdown(grip_, SHUT_RDWR));
  STARLING_ASSERT(::dup3(idle_, grip_, O_CLOEXEC) == grip_);
}

bool TcpPath::follow(const zmq::message_t& message) { return follow(source_descriptor(message)); }

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
  if (!is_known()) return std::nullopt;
  if (!get_option(descriptor_, IPPROTO_TCP, TCP_INFO, info) || info.tcpi_rtt == 0) {
    return std::nullopt;
  }
  Look look;
  look.round_trip = std::chrono::microseconds(info.tcpi_rtt);
  look.delivered = info.tcpi_bytes_acked;
  look.busy = std::chrono::microseconds(info.tcpi_busy_time);
  look.held = std::chrono::microseconds(info.tcpi_rwnd_limited + info.tcpi_sndbuf_limited);
  look.sent_again = info.tcpi_total_retrans;
  return look;
}

// The kernel then sends packet by packet at that rate, whatever the congestion control would do.
void TcpPath::pace(std::optional<double> bytes_per_second) {
  if (bytes_per_second == paced_ || !is_known()) return;
  paced_ = bytes_per_second;
  const auto rate =
      bytes_per_second ? static_cast<std::uint64_t>(std::llround(*bytes_per_second)) : UINT64_MAX;
  static_cast<void>(::setsockopt(descriptor_, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate));
}

Endurance TcpPath::endure_losses() {
  return is_known() ? gossip::endure_losses(descriptor_) : Endurance::kNone;
}

std::optional<Endurance> PacedPath::tend(Instant now, LineUse& use) {
  const auto look = tcp_.look();
  if (!look) return std::nullopt;
  std::optional<Endurance> lossy;
  pacer_.update(now, *look);
  tcp_.pace(pacer_.rate());
  if (last_) {
    const Duration busy = look->busy - last_->busy;
    const Duration held = look->held - last_->held;
    use.delivered += look->delivered - last_->delivered;
    use.busy += busy;
    use.held += held;
    if (losses_.update(now, {look->sent_again - last_->sent_again, busy, held, pacer_.queue()})) {
      lossy = tcp_.endure_losses();
      if (lossy == Endurance::kGiven) pacer_.forget_rate();
    }
  }
  use.round_trip = std::max(use.round_trip, look->round_trip);
  last_ = look;
  return lossy;
}

}  // namespace starling::gossip
