#include "base/host.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace starling {
namespace {

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_name(std::string_view text) {
  constexpr std::string_view kMarks = ".-_";
  const auto valid = [kMarks](char c) {
    return is_alphanumeric(c) || kMarks.find(c) != std::string_view::npos;
  };
  return !text.empty() && is_alphanumeric(text.front()) &&
         std::all_of(text.begin(), text.end(), valid);
}

// What stands behind a zero would not be looked at.
bool is_address(int family, std::string_view text) {
  std::array<std::byte, sizeof(in6_addr)> address{};
  return text.find('\0') == std::string_view::npos &&
         ::inet_pton(family, std::string(text).c_str(), address.data()) == 1;
}

struct Block {
  std::uint32_t first;
  int bits;
};
// RFC 1918, RFC 6598 (behind a provider's NAT), RFC 3927.
constexpr std::array<Block, 5> kPrivate{{{0x0A000000, 8},     // 10.0.0.0
                                         {0xAC100000, 12},    // 172.16.0.0
                                         {0xC0A80000, 16},    // 192.168.0.0
                                         {0x64400000, 10},    // 100.64.0.0
                                         {0xA9FE0000, 16}}};  // 169.254.0.0

Reach reach_of(const in_addr& address) {
  const std::uint32_t number = ntohl(address.s_addr);
  const auto is_in = [number](const Block& block) {
    return (number ^ block.first) >> (32 - block.bits) == 0;
  };
  if (number == INADDR_ANY) return Reach::kUnspecified;
  if (is_in({0x7F000000, 8})) return Reach::kThisMachine;
  const bool is_private = std::any_of(kPrivate.begin(), kPrivate.end(), is_in);
  return is_private ? Reach::kThisNetwork : Reach::kAnywhere;
}

Reach reach_of(const in6_addr& address) {
  if (IN6_IS_ADDR_UNSPECIFIED(&address)) return Reach::kUnspecified;
  if (IN6_IS_ADDR_LOOPBACK(&address)) return Reach::kThisMachine;
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    in_addr inside{};
    std::memcpy(&inside, &address.s6_addr[12], sizeof inside);
    return reach_of(inside);
  }
  const bool unique_local = (address.s6_addr[0] & 0xFEU) == 0xFCU;  // RFC 4193
  const bool near = unique_local || IN6_IS_ADDR_LINKLOCAL(&address);
  return near ? Reach::kThisNetwork : Reach::kAnywhere;
}

}  // namespace

bool is_ip_literal(std::string_view host) {
  const std::size_t zone = host.find('%');
  if (zone == std::string_view::npos)
    return is_address(AF_INET, host) || is_address(AF_INET6, host);
  return is_address(AF_INET6, host.substr(0, zone)) && is_name(host.substr(zone + 1));
}

bool valid_host(std::string_view host) { return is_name(host) || is_ip_literal(host); }

Reach reach_of(std::string_view host) {
  const std::string text(host.substr(0, host.find('%')));  // of IPv6, a zone
  in6_addr six{};
  if (::inet_pton(AF_INET6, text.c_str(), &six) == 1) return reach_of(six);
  in_addr four{};  // also in short: the resolver takes "0" and "127.1" for addresses
  if (::inet_aton(text.c_str(), &four) == 1) return reach_of(four);
  return host == "localhost" ? Reach::kThisMachine : Reach::kUnknown;
}

}  // namespace starling
