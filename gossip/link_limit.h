// HandshakeLimit: how many strangers may knock. A bucket of tokens for all and one for each
// network of origin (/24 of IPv4, /56 of IPv6), so that a flood from one place does not shut out
// the rest, and a flood from everywhere does not eat the loop. This machine is no network.
//
// Bounded: at most kNetworksMax networks are remembered; one that has been quiet is forgotten.
// Thread: one owner. Time is an argument.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/time.h"

namespace starling::gossip {

class HandshakeLimit {
 public:
  static constexpr std::size_t kNetworksMax = 1024;

  // Takes a token for a handshake from `host`, an IP literal; false if there is none.
  bool admit(Instant now, std::string_view host);

 private:
  struct Rate {
    double per_second = 0, burst = 0;
  };
  static constexpr Rate kAll{.per_second = 200, .burst = 400};
  static constexpr Rate kNetwork{.per_second = 5, .burst = 100};
  struct Bucket {
    double used = 0;
    Instant at;
    bool admit(Instant now, const Rate& rate);
    bool idle(Instant now, const Rate& rate) const;
  };

  Bucket all_;
  std::map<std::string, Bucket> networks_;
};

}  // namespace starling::gossip
