#include "gossip/net/link_limit.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace starling::gossip {
namespace {

constexpr std::size_t kNetworkBytes4 = 3;
constexpr std::size_t kNetworkBytes6 = 7;
constexpr std::array<char, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '\xFF', '\xFF'};

}  // namespace

std::string network_of(std::string_view host) {
  std::array<char, 16> raw{};
  const std::string name(host);
  if (::inet_pton(AF_INET, name.c_str(), raw.data()) == 1) {
    return raw[0] == 127 ? std::string() : std::string(raw.data(), kNetworkBytes4);
  }
  if (::inet_pton(AF_INET6, name.c_str(), raw.data()) != 1) return "?";
  if (std::equal(kMapped.begin(), kMapped.end(), raw.begin())) {
    return raw[12] == 127 ? std::string() : std::string(raw.data() + 12, kNetworkBytes4);
  }
  const bool loopback =
      raw[15] == 1 && std::all_of(raw.begin(), raw.end() - 1, [](char byte) { return byte == 0; });
  return loopback ? std::string() : std::string(raw.data(), kNetworkBytes6);
}

bool HandshakeLimit::Bucket::admit(Instant now, const Rate& rate) {
  used = std::max(0.0, used - to_seconds(now - at) * rate.per_second);
  at = now;
  if (used + 1 > rate.burst) return false;
  used += 1;
  return true;
}

bool HandshakeLimit::Bucket::idle(Instant now, const Rate& rate) const {
  return to_seconds(now - at) * rate.per_second >= used;
}

bool HandshakeLimit::admit(Instant now, std::string_view host) {
  const std::string network = network_of(host);
  if (network.empty()) return all_.admit(now, rates_.all);
  if (networks_.size() >= kNetworksMax && !networks_.contains(network)) {
    std::erase_if(networks_,
                  [&](const auto& item) { return item.second.idle(now, rates_.network); });
    if (networks_.size() >= kNetworksMax) return false;
  }
  // Its own network first: what that is refused takes nothing from the others.
  return networks_[network].admit(now, rates_.network) && all_.admit(now, rates_.all);
}

}  // namespace starling::gossip
