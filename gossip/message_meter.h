// MessageMeter: how much one peer may say. Every Ping is answered with a whole Pong and every new
// record is a signature to check, so whoever talks without measure burns its reader's time; and
// whoever sends payloads that nobody waits for, its line and its owner's bytes.
//
// What is beyond the measure is dropped; after deluge_drops of it, with no rest between, it is no
// accident. No clock: `now` is an argument. Thread: one owner.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace starling::gossip {

class MessageMeter {
 public:
  struct Measure {
    double per_second, at_once;
    std::uint32_t deluge_drops;  // before there was room for all of at_once again
  };
  // Far above what an honest peer says to one other in its busiest minute (README.md, "Limits").
  static constexpr Measure kTalk{50, 500, 3000};
  // All that it says. An exchange has some four messages for each stripe, on the fastest line some
  // thousand stripes a second; a look-up each, so that only the loop's time is at stake.
  static constexpr Measure kAll{20'000, 100'000, 100'000};
  // Payloads that nobody waits for. What is under way when exchanges end, and what comes too late
  // over lines that break and crawl, is some hundred in an hour (swarm_sim_test); and each one that
  // is waited for makes up for one that is not.
  static constexpr Measure kUnasked{0.05, 256, 384};
  // Frames that are no message and prove nothing. Bad memory damages some in a minute; a line
  // damages none, for the connection's cipher sees to that.
  static constexpr Measure kWaste{0.5, 256, 384};

  enum class Intake : std::uint8_t { kTaken, kDropped, kDeluge };

  explicit MessageMeter(const Measure& measure) : measure_(measure), left_(measure.at_once) {}

  Intake take(Instant now) {
    const double refill = measure_.per_second * to_seconds(now - taken_at_);
    left_ = std::min(left_ + refill, measure_.at_once);
    taken_at_ = now;
    if (left_ >= measure_.at_once) dropped_ = 0;
    if (left_ >= 1) {
      left_ -= 1;
      return Intake::kTaken;
    }
    if (++dropped_ < measure_.deluge_drops) return Intake::kDropped;
    dropped_ = 0;
    return Intake::kDeluge;
  }
  void give() { left_ = std::min(left_ + 1, measure_.at_once); }  // room for one more

 private:
  Measure measure_;
  double left_;
  Instant taken_at_{};
  std::uint32_t dropped_ = 0;
};

}  // namespace starling::gossip
