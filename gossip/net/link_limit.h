// HandshakeLimit: how many may knock. A bucket of tokens for all and one for each network of origin
// (/24 of IPv4, /56 of IPv6), so that a flood from one place does not shut out the rest, and a
// flood from everywhere does not eat the loop. This machine is no network.
//
// Twice: as connections come (kCallers), because a handshake costs before it shows a key, and wide
// enough that a thousand peers behind one address all get in within half a minute; and for keys
// that no list names (kStrangers).
//
// Bounded: at most kNetworksMax networks are remembered; one that has been quiet is forgotten.
// Thread: one owner. Time is an argument.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/time.h"

namespace starling::gossip {

// The network that `host`, an IP literal, is in; empty for this machine, "?" for what is none.
std::string network_of(std::string_view host);

class HandshakeLimit {
 public:
  struct Rate {
    double per_second = 0, burst = 0;
  };
  struct Rates {
    Rate all, network;
  };
  static constexpr Rates kStrangers{.all = {.per_second = 200, .burst = 400},
                                    .network = {.per_second = 5, .burst = 100}};
  static constexpr Rates kCallers{.all = {.per_second = 400, .burst = 4096},
                                  .network = {.per_second = 50, .burst = 2048}};
  static constexpr std::size_t kNetworksMax = 1024;

  explicit HandshakeLimit(const Rates& rates) : rates_(rates) {}

  // Takes a token for a handshake from `host`, an IP literal; false if there is none.
  bool admit(Instant now, std::string_view host);

 private:
  struct Bucket {
    double used = 0;
    Instant at;
    bool admit(Instant now, const Rate& rate);
    bool idle(Instant now, const Rate& rate) const;
  };

  const Rates rates_;
  Bucket all_;
  std::map<std::string, Bucket> networks_;
};

}  // namespace starling::gossip
