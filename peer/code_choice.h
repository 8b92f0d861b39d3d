// CodeChoice: when weights should travel in fewer bits, because the limits of the line's owner hold
// exchanges back: where the line has been full for kFullFor without a break, as a newcomer's state
// alone does not keep it; and where the day's pace makes exchanges rest for the second time, as the
// first may be due to such a state. It says so once. Thread: one owner.
#pragma once

#include <chrono>
#include <utility>

#include "base/time.h"

namespace starling::peer {

class CodeChoice {
 public:
  static constexpr Duration kFullFor = std::chrono::minutes(5);

  bool look(Instant now, bool line_full, bool rests_for_pace) {
    if (!std::exchange(was_full_, line_full)) full_since_ = now;
    const bool rested = std::exchange(rests_, rests_for_pace);
    if (rests_for_pace && !rested) ++rests_seen_;
    const bool full = line_full && now - full_since_ >= kFullFor;
    if (said_ || !(full || rests_seen_ >= kRestsAreMany)) return false;
    said_ = true;
    return true;
  }

 private:
  static constexpr int kRestsAreMany = 2;
  Instant full_since_{};
  bool was_full_ = false;
  int rests_seen_ = 0;
  bool rests_ = false, said_ = false;
};

}  // namespace starling::peer
