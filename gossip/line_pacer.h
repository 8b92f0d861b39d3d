// LinePacer: how fast payloads may leave for one peer, so that they fill the line and not the
// queues in front of it, in which everybody's probes would wait behind them.
//
// The measure is how long the round trip is above the shortest one known, as in LEDBAT (RFC 6817).
// Below kQueueLow there is room, and the rate grows; from there on it is what the line has
// delivered lately, so that the queue stays; above kQueueHigh it is so much less that the queue has
// drained after kDrain. Multiplicative, because lines differ by factors. As long as there was no
// queue there is no limit: what is too fast for a line is TCP's business until it hurts others.
//
// The rate grows only while it is used, and each step waits for a round trip, so that the effect of
// the last one is seen. Pure: whoever has the round trips calls update() some ten times a second.
// Thread: one owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/time.h"

namespace starling::gossip {

class LinePacer {
 public:
  static constexpr Duration kQueueLow = std::chrono::milliseconds(30);
  static constexpr Duration kQueueHigh = std::chrono::milliseconds(80);
  static constexpr Duration kStepMin = std::chrono::milliseconds(100);
  static constexpr Duration kStepMax = std::chrono::seconds(1);
  static constexpr Duration kDrain = std::chrono::milliseconds(800);
  static constexpr Duration kBaseMemory = std::chrono::minutes(5);  // one to two times that
  static constexpr double kGrowth = 1.05, kFallMax = 0.5;
  static constexpr double kUsed = 0.8;         // of the rate, or it is not what limits
  static constexpr double kKept = 0.95;        // of the best delivery, per step
  static constexpr double kRateMin = 1e6 / 8;  // bytes per second

  struct Sample {
    Duration round_trip{};
    std::uint64_t delivered = 0;  // bytes that the other side has acknowledged so far
  };
  // What was delivered counts from zero again.
  void on_new_connection() { last_.reset(); }
  // What was delivered so far was not all that the line can: the rate is found anew.
  void forget_rate();
  void update(Instant now, const Sample& sample);
  // Bytes per second; empty: no limit.
  std::optional<double> rate() const { return rate_; }
  // The last round trip above the shortest.
  Duration queue() const { return queue_; }

 private:
  Duration shortest(Instant now, Duration round_trip);

  struct Step {
    Instant at;
    std::uint64_t delivered = 0;
  };
  std::optional<Step> last_;
  Instant next_step_;
  std::optional<double> rate_;          // bytes per second
  std::optional<double> drained_rate_;  // the rate once the queue has drained
  double best_ = 0;                     // delivered lately, bytes per second
  Duration queue_{};
  Duration shortest_ = Duration::max(), shortest_before_ = Duration::max();
  Instant shortest_since_;
};

inline void LinePacer::forget_rate() {
  rate_.reset();
  drained_rate_.reset();
  best_ = 0;
}

// Of the last minutes: a path that has become longer is forgiven then.
inline Duration LinePacer::shortest(Instant now, Duration round_trip) {
  if (now - shortest_since_ >= kBaseMemory) {
    shortest_before_ = shortest_;
    shortest_ = round_trip;
    shortest_since_ = now;
  }
  shortest_ = std::min(shortest_, round_trip);
  return std::min(shortest_, shortest_before_);
}

inline void LinePacer::update(Instant now, const Sample& sample) {
  queue_ = sample.round_trip - shortest(now, sample.round_trip);
  if (!last_) last_ = Step{now, sample.delivered};
  const Duration passed = now - last_->at;
  if (now < next_step_ || passed < std::clamp<Duration>(sample.round_trip, kStepMin, kStepMax)) {
    return;
  }
  const double delivered =
      static_cast<double>(sample.delivered - last_->delivered) / to_seconds(passed);
  last_ = Step{now, sample.delivered};
  best_ = std::max(delivered, kKept * best_);
  if (queue_ > kQueueHigh) {
    drained_rate_ = std::max(std::min(rate_.value_or(best_), best_), kRateMin);
    const double share = std::min(to_seconds(queue_) / to_seconds(kDrain), kFallMax);
    rate_ = std::max((1 - share) * *drained_rate_, kRateMin);
    next_step_ = now + kDrain;
  } else if (drained_rate_) {
    rate_ = std::exchange(drained_rate_, std::nullopt);
  } else if (rate_ && queue_ >= kQueueLow) {
    rate_ = std::max(std::min(*rate_, best_), kRateMin);
  } else if (rate_ && delivered > kUsed * *rate_) {
    rate_ = kGrowth * *rate_;
  }
}

}  // namespace starling::gossip
