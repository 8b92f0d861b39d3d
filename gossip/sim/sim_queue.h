// SimQueue: events in the order of (time, sequence). The sequence makes the order of simultaneous
// events, and so the whole run, a function of the seed. Thread: one owner.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "base/time.h"

namespace starling::gossip {

enum class SimEventKind : std::uint8_t {
  kDelivery,    // detail: parcel
  kSendFailed,  // detail: peer that was not reached
  kDeadline,    // detail: ticket of the timer
  kMixer,
  kKeeper,  // of states
  kTrainer,
  kCut,  // checkpoint
  kStart,
  kGone,    // a leaving process ends
  kResume,  // after a pause
  kStarve,  // a starved process loses the processor again
  kFault,   // detail: SimFault
  kMend,
  kReached,  // somebody has opened connections to it
  kDeed,     // a hostile peer says something of its own
  kLookAtReach,
};

struct SimEvent {
  Instant at;
  std::uint64_t sequence = 0;
  SimEventKind kind{};
  std::uint32_t peer = 0;
  std::uint32_t life = 0;  // events of a former life of the process are void
  std::uint32_t detail = 0;
};

class SimQueue {
 public:
  void push(SimEvent event) {
    event.sequence = ++sequence_;
    events_.push(event);
  }
  bool empty() const { return events_.empty(); }
  const SimEvent& next() const { return events_.top(); }
  SimEvent pop() {
    const SimEvent event = events_.top();
    events_.pop();
    return event;
  }

 private:
  struct Later {
    bool operator()(const SimEvent& left, const SimEvent& right) const {
      if (left.at != right.at) return left.at > right.at;
      return left.sequence > right.sequence;
    }
  };
  std::priority_queue<SimEvent, std::vector<SimEvent>, Later> events_;
  std::uint64_t sequence_ = 0;
};

}  // namespace starling::gossip
