// EnvelopeLimit: how many envelopes are opened whose senders have not proved themselves by one.
// Each costs the sender's key a product on the curve, a tenth of a millisecond, and whoever brings
// it nothing: its head may name anybody. Whose fault a forged one is cannot be told, so nobody can
// be blamed; but of one bringer so many are opened, and so many in all. What a bringer is refused
// takes nothing from the others.
//
// Beyond that an envelope is dropped unread; an honest peer greets again. Those who have proved
// themselves are not held by it. Bounded: kBringersMax are remembered. No clock: `now` is an
// argument and never goes back. Thread: one owner.
#pragma once

#include <cstddef>
#include <map>

#include "base/ids.h"
#include "base/time.h"
#include "gossip/token_bucket.h"

namespace starling::gossip {

class EnvelopeLimit {
 public:
  // Per second, and at once: all whom one relay serves, in a swarm that starts together. Ten
  // bringers have to mean harm together before an eleventh is kept waiting for long.
  static constexpr double kPerSecond = 20, kAtOnce = 500;              // of one bringer
  static constexpr double kPerSecondInAll = 200, kAtOnceInAll = 1000;  // a fiftieth of a processor
  static constexpr std::size_t kBringersMax = 1024;

  // Takes one that `bringer` has brought; false: it is not to be opened.
  bool take(Instant now, PeerId bringer) {
    if (of_one_.size() >= kBringersMax && !of_one_.contains(bringer)) of_one_.clear();
    TokenBucket& own =
        of_one_.try_emplace(bringer, TokenBucket(kPerSecond, kAtOnce, now)).first->second;
    if (!own.may_take(now) || !in_all_.may_take(now)) return false;
    own.take(now, 1);
    in_all_.take(now, 1);
    return true;
  }
  std::size_t bringers() const { return of_one_.size(); }

 private:
  TokenBucket in_all_{kPerSecondInAll, kAtOnceInAll, Instant{}};
  std::map<PeerId, TokenBucket> of_one_;
};

}  // namespace starling::gossip
