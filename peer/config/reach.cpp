#include "peer/config/reach.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <string>

namespace starling::peer {

namespace {

namespace ip = boost::asio::ip;

struct Block {
  const char* first;
  int bits;
};
// RFC 1918, RFC 6598 (behind a provider's NAT), RFC 3927.
constexpr std::array<Block, 5> kPrivate{{{"10.0.0.0", 8},
                                         {"172.16.0.0", 12},
                                         {"192.168.0.0", 16},
                                         {"100.64.0.0", 10},
                                         {"169.254.0.0", 16}}};

bool is_in(const ip::address_v4& address, const Block& block) {
  const unsigned shift = 32U - static_cast<unsigned>(block.bits);
  return address.to_uint() >> shift == ip::make_address_v4(block.first).to_uint() >> shift;
}

Reach reach_of(const ip::address& address) {
  if (address.is_unspecified()) return Reach::kUnspecified;
  if (address.is_loopback()) return Reach::kThisMachine;
  if (address.is_v6()) {
    const ip::address_v6 v6 = address.to_v6();
    if (v6.is_v4_mapped()) return reach_of(ip::make_address_v4(ip::v4_mapped, v6));
    const bool unique_local = (v6.to_bytes()[0] & 0xFEU) == 0xFCU;  // RFC 4193
    return unique_local || v6.is_link_local() ? Reach::kThisNetwork : Reach::kAnywhere;
  }
  const auto in = [&](const Block& block) { return is_in(address.to_v4(), block); };
  return std::any_of(kPrivate.begin(), kPrivate.end(), in) ? Reach::kThisNetwork : Reach::kAnywhere;
}

}  // namespace

Reach reach_of(std::string_view host) {
  const std::string text(host);
  boost::system::error_code no_literal;
  const ip::address address = ip::make_address(text, no_literal);
  if (!no_literal) return reach_of(address);
  in_addr short_form{};  // "0", "127.1": the resolver takes them for addresses
  if (::inet_aton(text.c_str(), &short_form) == 1) {
    return reach_of(ip::address(ip::address_v4(ntohl(short_form.s_addr))));
  }
  return host == "localhost" ? Reach::kThisMachine : Reach::kUnknown;
}

}  // namespace starling::peer
