// What may stand for a host in an address, wherever one is read: the configuration, the wire, a
// link. ZeroMQ gives some characters a special meaning, and asks the resolver about anything that
// it does not recognise as an address, which can take many seconds: only these forms are accepted.
#pragma once

#include <cstdint>
#include <string_view>

namespace starling {

// An address of IPv4, or of IPv6, perhaps with a zone ("fe80::1%eth0"): nobody has to resolve it.
bool is_ip_literal(std::string_view host);
// An IP literal, or a name of a host or an interface: letters, digits, '.', '-' and '_', a letter
// or digit first.
bool valid_host(std::string_view host);

// From where a host can be called, as far as its address tells: without asking a resolver. Ordered
// by distance up to kAnywhere. kUnspecified: 0.0.0.0 and ::, all addresses of a machine that
// listens, and none that others could call. kUnknown: a name, but for localhost.
enum class Reach : std::uint8_t { kUnspecified, kThisMachine, kThisNetwork, kAnywhere, kUnknown };

// However the host is written; also IPv4 inside of IPv6.
Reach reach_of(std::string_view host);

}  // namespace starling
