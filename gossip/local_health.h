// LocalHealth: how far this peer trusts its own judgement, and how long a suspicion lasts.
//
// Lifeguard (Dadgar, Phillips, Currey: "Lifeguard: SWIM-ing with situational awareness",
// arXiv:1707.00788). Section IV-A, the local health multiplier: whoever misses answers that should
// have come, is suspected itself or did not run for a while is probably slow itself, and gives
// others more time. Anybody can say that he suspects somebody, and to slow down everybody's
// detection of failures would be cheap: so a suspicion confirms what this peer has noticed of
// itself, each time once, and means nothing alone. Who is slow misses answers and deadlines, too.
// Section IV-B: a suspicion begins with a long timeout that shrinks with the logarithm of the
// number of independent accusers. No clock. Thread: plain values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/time.h"

namespace starling::gossip {

class LocalHealth {
 public:
  static constexpr std::uint32_t kWorst = 7;

  void good() { score_ -= score_ > 0 ? 1 : 0; }
  void bad(std::uint32_t by) {
    score_ = std::min(score_ + by, kWorst);
    unconfirmed_ = std::min(unconfirmed_ + by, kWorst);
  }
  void suspected() {
    if (unconfirmed_ == 0) return;
    --unconfirmed_;
    score_ = std::min(score_ + 1, kWorst);
  }
  std::uint32_t score() const { return score_; }  // 0: healthy
  Duration stretch(Duration duration) const { return duration * (score_ + 1); }

 private:
  std::uint32_t score_ = 0;
  std::uint32_t unconfirmed_ = 0;  // of what was bad
};

struct SuspicionTimes {
  Duration least;
  Duration most;
};

// `peers` counts the whole swarm. Longer in a large one, where news takes longer to get around.
inline SuspicionTimes suspicion_times(Duration base, double peers) {
  const Duration least = from_seconds(to_seconds(base) * std::max(1.0, std::log10(peers)));
  return {least, 6 * least};
}

// `confirmations` by others out of `expected`; nobody to confirm: the shortest at once.
inline Duration suspicion_timeout(const SuspicionTimes& times, std::size_t confirmations,
                                  std::size_t expected) {
  if (expected == 0) return times.least;
  const double share = std::log(static_cast<double>(confirmations) + 1) /
                       std::log(static_cast<double>(expected) + 1);
  const Duration shrunk = times.most - from_seconds(to_seconds(times.most - times.least) * share);
  return std::max(times.least, shrunk);
}

}  // namespace starling::gossip
