// From where an address can be called, as far as its host tells: without asking a resolver.
#pragma once

#include <cstdint>
#include <string_view>

namespace starling::peer {

// Ordered by distance up to kAnywhere. kUnspecified: 0.0.0.0 and ::, all addresses of a machine
// that listens, and none that others could call. kUnknown: a name, but for localhost.
enum class Reach : std::uint8_t { kUnspecified, kThisMachine, kThisNetwork, kAnywhere, kUnknown };

// However the host is written; also IPv4 inside of IPv6.
Reach reach_of(std::string_view host);

}  // namespace starling::peer
