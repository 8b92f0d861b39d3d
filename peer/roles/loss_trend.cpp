#include "peer/roles/loss_trend.h"

#include <algorithm>
#include <cmath>

namespace starling::peer {

void LossTrend::add(double loss) {
  if (!std::isfinite(loss)) return;
  sum_ += loss;
  if (++count_ < kSpan) return;
  last_ = sum_ / count_;
  sum_ = 0;
  count_ = 0;
  lowest_ = std::min(lowest_.value_or(last_), last_);
  const bool high = last_ > *lowest_ + std::max(kRise * *lowest_, kRiseMin);
  high_ = high ? std::min(high_ + 1, kSpansHigh) : 0;
}

std::optional<LossTrend::Rise> LossTrend::rise() const {
  if (high_ < kSpansHigh) return std::nullopt;
  return Rise{.lowest = *lowest_, .now = last_};
}

}  // namespace starling::peer
