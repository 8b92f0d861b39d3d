#include "base/host.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstddef>
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

}  // namespace

bool is_ip_literal(std::string_view host) {
  const std::size_t zone = host.find('%');
  if (zone == std::string_view::npos)
    return is_address(AF_INET, host) || is_address(AF_INET6, host);
  return is_address(AF_INET6, host.substr(0, zone)) && is_name(host.substr(zone + 1));
}

bool valid_host(std::string_view host) { return is_name(host) || is_ip_literal(host); }

}  // namespace starling
