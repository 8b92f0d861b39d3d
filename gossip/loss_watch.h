// LossWatch: whether a line loses packets though it is not full.
//
// It does when packets were sent again in a few seconds of a minute in which nothing waited in
// front of it; and then it stays so. A loss counts only while the connection has much to send and
// is not held up by full buffers; of the many losses of one step, one does.
//
// Pure: whoever can see the connection calls update() some ten times a second. Thread: one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/time.h"

namespace starling::gossip {

class LossWatch {
 public:
  static constexpr Duration kStep = std::chrono::seconds(1);
  static constexpr Duration kMemory = std::chrono::minutes(1);
  static constexpr std::size_t kStepsLeast = 3;  // with a loss, in kMemory
  static constexpr double kBusyLeast = 0.25;     // of a step
  static constexpr double kHeldMost = 0.5;       // of that, behind full buffers
  // A queue that explains a loss: as long as this at any time of the step.
  static constexpr Duration kQueueLeast = std::chrono::milliseconds(30);

  // Since the last call, but for the queue, which is that of now.
  struct Use {
    std::uint64_t sent_again = 0;  // segments
    Duration busy{}, held{};       // had something to send; of that, behind a full buffer
    Duration queue{};              // the round trip above the shortest one
  };
  // True: it has just turned out to be lossy.
  bool update(Instant now, const Use& use);
  bool lossy() const { return lossy_; }

 private:
  std::optional<Instant> step_began_;
  Use step_;
  std::vector<Instant> steps_with_loss_;  // in kMemory
  bool lossy_ = false;
};

inline bool LossWatch::update(Instant now, const Use& use) {
  if (lossy_) return false;
  if (!step_began_) step_began_ = now;
  step_.sent_again += use.sent_again;
  step_.busy += use.busy;
  step_.held += use.held;
  step_.queue = std::max(step_.queue, use.queue);
  const Duration passed = now - *step_began_;
  if (passed < kStep) return false;
  step_began_ = now;
  const Use step = std::exchange(step_, {});
  const bool loses = step.sent_again > 0 && step.queue < kQueueLeast &&
                     to_seconds(step.busy) >= kBusyLeast * to_seconds(passed) &&
                     to_seconds(step.held) <= kHeldMost * to_seconds(step.busy);
  if (!loses) return false;
  std::erase_if(steps_with_loss_, [&](Instant step_end) { return now - step_end > kMemory; });
  steps_with_loss_.push_back(now);
  lossy_ = steps_with_loss_.size() >= kStepsLeast;
  return lossy_;
}

}  // namespace starling::gossip
