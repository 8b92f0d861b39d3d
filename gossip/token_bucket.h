// TokenBucket: a limit of bytes per second that holds exactly over time. Tokens come in at the rate
// and are kept up to `burst`; taking may leave a debt, so that a frame larger than the burst can
// leave at all, and the debt delays what follows. Over any span t at most rate * t + burst + one
// frame are taken. What waits for nobody is charged, and what takes wait for that is bounded:
// others decide how much of it there is. A rate of 0 limits nothing. No clock: `now` is an argument
// and never goes back. Thread: one owner.
//
// Turner, "New directions in communications (or which way to the information age?)", IEEE
// Communications Magazine 24(10), 1986: the leaky bucket as a meter.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "base/time.h"

namespace starling::gossip {

class TokenBucket {
 public:
  static constexpr Duration kChargedMax = std::chrono::seconds(2);

  TokenBucket() = default;  // no limit
  TokenBucket(double bytes_per_second, double burst_bytes, Instant now)
      : rate_(bytes_per_second), burst_(burst_bytes), level_(burst_bytes), filled_(now) {}

  bool limited() const { return rate_ > 0; }
  // True while there is no debt: then one frame of any size may go.
  bool may_take(Instant now) {
    refill(now);
    return !limited() || level_ > 0;
  }
  void take(Instant now, std::size_t bytes) {
    if (!limited()) return;
    refill(now);
    level_ -= static_cast<double>(bytes);
  }
  // As take(), of bytes that nobody could hold back; they add to no debt beyond kChargedMax.
  void charge(Instant now, std::size_t bytes) {
    if (!limited()) return;
    refill(now);
    const double least = std::min(level_, -rate_ * to_seconds(kChargedMax));
    level_ = std::max(level_ - static_cast<double>(bytes), least);
  }
  // How long until may_take() holds.
  Duration wait(Instant now) {
    if (may_take(now)) return Duration::zero();
    return from_seconds(-level_ / rate_) + std::chrono::microseconds(1);
  }

 private:
  void refill(Instant now) {
    if (!limited()) return;
    level_ = std::min(burst_, level_ + rate_ * to_seconds(now - filled_));
    filled_ = now;
  }

  double rate_ = 0;   // bytes per second
  double burst_ = 0;  // bytes
  double level_ = 0;  // bytes; below zero: a debt
  Instant filled_;
};

}  // namespace starling::gossip
