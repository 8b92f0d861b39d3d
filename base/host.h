// What may stand for a host in an address, wherever one is read: the configuration, the wire, a
// link. ZeroMQ gives some characters a special meaning, and asks the resolver about anything that
// it does not recognise as an address, which can take many seconds: only these forms are accepted.
#pragma once

#include <string_view>

namespace starling {

// An address of IPv4, or of IPv6, perhaps with a zone ("fe80::1%eth0"): nobody has to resolve it.
bool is_ip_literal(std::string_view host);
// An IP literal, or a name of a host or an interface: letters, digits, '.', '-' and '_', a letter
// or digit first.
bool valid_host(std::string_view host);

}  // namespace starling
