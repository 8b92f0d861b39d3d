// TokenSeal: how a peer vouches for what it says of its own training. Token entries travel through
// many hands and outlive their subjects, so each stands under the signature of its subject: nobody
// can raise another's count, and what the dead have trained can be shown to anybody.
//
// As with records (record_seal.h) the signed text is what it is for good: peers of two versions of
// the wire pass entries on to each other. Values only. Thread: const, any.
#pragma once

#include <cstdint>

#include "base/assert.h"
#include "gossip/messages.h"
#include "gossip/record_seal.h"

namespace starling::gossip {

class TokenSeal {
 public:
  // `seal` is there and outlives it.
  TokenSeal(const RecordSeal* seal, std::uint64_t run) : seal_(seal), run_(run) {
    STARLING_ASSERT(seal != nullptr);
  }

  // `entry` is this peer's own.
  void sign(TokenEntry& entry) const;
  // False also for numbers that no peer would sign: more tokens than kTokensOfProcessMax, a rate
  // that is no finite number from 0 to kRateMax.
  bool verify(const TokenEntry& entry) const;

  static constexpr float kRateMax = 1e12F;

 private:
  const RecordSeal* seal_;
  std::uint64_t run_;
};

}  // namespace starling::gossip
