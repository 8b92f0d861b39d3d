// Addresses of peers as people write them, in configurations and on command lines: foreign text, of
// which an error says what an address looks like. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gossip/messages.h"

namespace starling::peer {

// "host:port"; an IPv6 literal stands in brackets. bulk_port 0: the port after `port` (0 stays 0).
Result<gossip::PeerAddress> parse_address(std::string_view text, std::uint16_t bulk_port);
// Where a peer answers by HTTP: a plain address, without a second port. Likewise, of status.listen.
Result<gossip::PeerAddress> parse_status_address(std::string_view text);
Result<gossip::PeerAddress> parse_status_listen(std::string_view text);
// "KEY@host:port": where a peer is and who it is. The same as text, for others to paste.
Result<gossip::PeerAddress> parse_seed(std::string_view text);
std::string to_seed(const gossip::PeerAddress& address);

}  // namespace starling::peer
