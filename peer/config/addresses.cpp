#include "peer/config/addresses.h"

#include <fmt/format.h>

#include <utility>

#include "base/host.h"
#include "base/parse_number.h"
#include "gossip/public_key.h"

namespace starling::peer {

namespace {

constexpr std::uint16_t kPeerPort = 7700, kStatusPort = 7780;  // the usual ones, as examples

Result<gossip::PeerAddress> parse(std::string_view text, std::uint16_t bulk_port,
                                  std::uint16_t usual) {
  const auto wrong = [text, usual](std::string_view why) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("\"{0}\" {1}; an address looks like \"host:{2}\" or \"[::1]:{2}\"",
                             text, why, usual));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return wrong(parse_number<std::uint16_t>(text) ? "has no host before its port" : "has no port");
  }
  std::string_view host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong("has more than one colon, but no brackets");
  }
  gossip::PeerAddress address;
  if (!gossip::set_host(address, host)) return wrong("has no host, or one that is too long");
  if (!valid_host(host)) return wrong("has a host that is neither a name nor an IP address");
  const auto port = parse_number<std::uint16_t>(text.substr(colon + 1));
  if (!port) return wrong("has a port that is not a number up to 65535");
  address.control_port = *port;
  address.bulk_port = bulk_port;
  if (bulk_port == 0 && address.control_port != 0) {
    if (address.control_port == 65535) return wrong("leaves no port for the weights behind it");
    address.bulk_port = static_cast<std::uint16_t>(address.control_port + 1);
  }
  return address;
}

}  // namespace

Result<gossip::PeerAddress> parse_address(std::string_view text, std::uint16_t bulk_port) {
  return parse(text, bulk_port, kPeerPort);
}

Result<gossip::PeerAddress> parse_status_address(std::string_view text) {
  return parse(text, 1, kStatusPort);  // the second port means nothing here
}

Result<gossip::PeerAddress> parse_status_listen(std::string_view text) {
  auto address = parse_status_address(text);
  if (!address.ok()) return std::move(address).error().with_context("status.listen");
  return address;
}

Result<gossip::PeerAddress> parse_seed(std::string_view text) {
  const std::size_t at = text.find('@');
  const auto key = gossip::parse_public_key(text.substr(0, at));
  if (at == std::string_view::npos || !key) {
    return Error(
        ErrorCode::kInvalidConfig,
        fmt::format("\"{}\" does not begin with a key, the 64 digits that 'starling keygen "
                    "FILE' tells on that machine; when it starts a peer logs what to "
                    "write, like \"0123...cdef@host:7700\"",
                    text));
  }
  auto address = parse_address(text.substr(at + 1), 0);
  if (address.ok()) {
    gossip::PeerAddress whole = address.value();
    whole.key = *key;
    return whole;
  }
  return address;
}

std::string to_seed(const gossip::PeerAddress& address) {
  return gossip::to_string(address.key) + "@" + gossip::to_string(address);
}

}  // namespace starling::peer
