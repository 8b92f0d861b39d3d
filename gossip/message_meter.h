// MessageMeter: how much one peer may say. Every Ping is answered with a whole Pong and every new
// record is a signature to check, so whoever talks without measure burns its reader's time.
//
// What is beyond the measure is dropped; after kDelugeDrops of it, with no rest between, it is no
// accident. No clock: `now` is an argument. Thread: one owner.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace starling::gossip {

class MessageMeter {
 public:
  // Far above what an honest peer says to one other in its busiest minute (README.md, "Limits").
  static constexpr double kPerSecond = 50;
  static constexpr double kAtOnce = 500;
  // Dropped before there was room for all of kAtOnce again.
  static constexpr std::uint32_t kDelugeDrops = 3000;

  enum class Intake : std::uint8_t { kTaken, kDropped, kDeluge };

  Intake take(Instant now) {
    left_ = std::min(left_ + kPerSecond * to_seconds(now - taken_at_), kAtOnce);
    taken_at_ = now;
    if (left_ >= kAtOnce) dropped_ = 0;
    if (left_ >= 1) {
      left_ -= 1;
      return Intake::kTaken;
    }
    if (++dropped_ < kDelugeDrops) return Intake::kDropped;
    dropped_ = 0;
    return Intake::kDeluge;
  }

 private:
  double left_ = kAtOnce;
  Instant taken_at_{};
  std::uint32_t dropped_ = 0;
};

}  // namespace starling::gossip
