#include "peer/roles/stall_watch.h"

#include <algorithm>
#include <utility>

namespace starling::peer {

void StallWatch::look(Instant now, std::uint64_t passes, bool trains) {
  const Duration passed = now - looked_.value_or(now);
  const std::uint64_t ended = looked_ ? passes - seen_ : 0;
  looked_ = now;
  seen_ = passes;
  still_ = trains ? still_ + std::min(passed, kLook) : Duration::zero();
  if (ended == 0) return;
  ended_ += ended;
  moving_ += std::exchange(still_, Duration::zero());
}

std::optional<Duration> StallWatch::stalled() const {
  const auto each = usual();
  const Duration most = each ? std::max(kMin, kPasses * *each) : kFirst;
  if (still_ < most) return std::nullopt;
  return still_;
}

std::optional<Duration> StallWatch::usual() const {
  if (ended_ == 0) return std::nullopt;
  return moving_ / static_cast<Duration::rep>(ended_);
}

}  // namespace starling::peer
