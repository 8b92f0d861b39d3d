// ScheduleClock: the swarm's tokens as the learning rate follows them. It goes forward at once. It
// goes back only where the swarm's count has been below half of it for kBackAfter: a lie was taken
// out of the count, by whoever edits the allow-list. A count that is small for less long is that of
// one who has just started and has yet to hear the others; none at all says nothing.
//
// Reads no clock. Thread: one owner.
#pragma once

#include <algorithm>
#include <chrono>

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

 private:
  bool low_ = false;
  Instant low_since_;
};

}  // namespace starling::peer
