// VirtualTime: a clock that jumps from one event to the next. Events of one moment come in the
// order in which they were set, so that the order of all follows from what set them. Thread: one
// owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/time.h"

namespace starling::peer {

class VirtualTime {
 public:
  Instant now() const noexcept { return now_; }

  // Not before now.
  void at(Instant when, std::function<void()> action) {
    events_.push_back({std::max(when, now_), ++sequence_, std::move(action)});
    std::push_heap(events_.begin(), events_.end(), later);
  }

  bool idle() const noexcept { return events_.empty(); }

  // Goes on to the next event and through it; false if there is none up to `end`: then it is `end`.
  bool advance(Instant end) {
    if (events_.empty() || events_.front().when > end) {
      now_ = std::max(now_, end);
      return false;
    }
    std::pop_heap(events_.begin(), events_.end(), later);
    const Event event = std::move(events_.back());
    events_.pop_back();
    STARLING_ASSERT(event.when >= now_);
    now_ = event.when;
    event.action();
    return true;
  }

 private:
  struct Event {
    Instant when;
    std::uint64_t sequence = 0;
    std::function<void()> action;
  };
  static bool later(const Event& left, const Event& right) {
    return std::pair(left.when, left.sequence) > std::pair(right.when, right.sequence);
  }

  Instant now_{};
  std::uint64_t sequence_ = 0;
  std::vector<Event> events_;  // a heap
};

}  // namespace starling::peer
