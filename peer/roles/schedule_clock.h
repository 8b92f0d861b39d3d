// ScheduleClock: the swarm's tokens as the learning rate follows them. It goes forward at once. It
// goes back only where the swarm's count has been below half of it for kBackAfter: a lie was taken
// out of the count, by whoever edits the allow-list. A count that is small for less long is that of
// one who has just started and has yet to hear the others; none at all says nothing.
//
// The warm-up follows it at the swarm's average pace only, clock / own tokens for each of this
// peer's. Where others are first heard of, or end their first step, the clock jumps to several
// times what it was, and a learning rate that did so would cut the warm-up short: of 100 runs of
// fifteen machines of speed 1/10 beside one of speed 1, 3 to 5 then knew nothing but the
// frequencies of letters for long; of 100 of the fast one alone, 1. Whoever meets a swarm far ahead
// of it is through at once.
//
// Reads no clock. Thread: one owner.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/time.h"

namespace starling::peer {

class ScheduleClock {
 public:
  static constexpr Duration kBackAfter = std::chrono::minutes(5);

  // What `clock` becomes. `own`: tokens of this peer; `heard`: of the swarm, 0 where nothing was
  // heard yet or there is none.
  double advance(Instant now, double clock, double own, double heard) {
    const double known = std::max(own, heard);
    const bool was_low = low_;
    low_ = heard > 0 && known < clock / 2;
    if (!low_) return std::max(clock, known);
    if (!was_low) low_since_ = now;
    return now - low_since_ < kBackAfter ? clock : known;
  }

  // Of `clock` tokens, those that the warm-up has come past. Once a step, of `step` own tokens.
  double warmed(double clock, double own, double step) {
    const double gone = own > 0 ? step * clock / own : clock;
    warmed_ = warmed_ ? std::min(clock, *warmed_ + gone) : clock;
    return *warmed_;
  }

 private:
  std::optional<double> warmed_;  // nothing before the first step of this process
  bool low_ = false;
  Instant low_since_;
};

}  // namespace starling::peer
