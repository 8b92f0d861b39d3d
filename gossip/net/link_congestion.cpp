#include "gossip/net/link_congestion.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string_view>
#include <utility>

namespace starling::gossip {
namespace {

constexpr std::string_view kEnduring = "bbr";

std::optional<std::string> control_of(int descriptor) {
  std::array<char, 16> name{};  // TCP_CA_NAME_MAX of the kernel
  socklen_t size = name.size();
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) {
    return std::nullopt;
  }
  return std::string(name.data(), ::strnlen(name.data(), name.size()));
}

bool slows_down_for_losses(std::string_view control) {
  return control == "reno" || control == "cubic";
}

}  // namespace

Endurance endure_losses(int descriptor) {
  const auto control = control_of(descriptor);
  if (control && !slows_down_for_losses(*control)) return Endurance::kOwn;
  const bool given = ::setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, kEnduring.data(),
                                  kEnduring.size()) == 0;
  return given ? Endurance::kGiven : Endurance::kNone;
}

std::optional<CongestionControl> congestion_control() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return std::nullopt;
  std::optional<CongestionControl> found;
  if (auto usual = control_of(descriptor)) {
    found = CongestionControl{std::move(*usual), endure_losses(descriptor)};
  }
  ::close(descriptor);
  return found;
}

}  // namespace starling::gossip
