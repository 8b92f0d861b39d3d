#include "gossip/freshness.h"

#include <algorithm>

namespace starling::gossip {
namespace {

constexpr double kShareOfGap = 0.25;  // of the last gap in the usual one

}  // namespace

void Freshness::begin_late(double seconds) {
  begun_late_ = seconds > 0;
  for (Part& part : parts_) {
    part.lag = std::max(part.lag, seconds);
    part.missed = seconds;
  }
}

void Freshness::renew() {
  begun_late_ = false;
  for (Part& part : parts_) part.lag = part.missed = 0;
}

void Freshness::on_progress(Instant now, std::uint64_t tokens, double pace, double fastest) {
  if (seen_ && fastest > 0 && tokens >= tokens_) {
    const double trained = static_cast<double>(tokens - tokens_) / fastest;
    const double change = pace * to_seconds(now - *seen_) - trained;
    for (Part& part : parts_) part.lag = std::max(0.0, part.lag + change);
  }
  seen_ = now;
  tokens_ = tokens;
}

void Freshness::on_published(Instant now, FragmentId fragment) {
  Part& part = parts_.at(fragment.value);
  if (part.published && part.tokens == tokens_) {
    // Progress is not told as often as that. Or there was none: then nothing new is offered again,
    // which is no round.
    part.idle = part.idle || part.seen != seen_;
    part.again = part.idle ? 0 : part.again + 1;
    return;
  }
  if (part.published) {
    const double gap = to_seconds(now - *part.published) / (part.again + 1);
    part.round += part.round > 0 ? kShareOfGap * (gap - part.round) : gap;
  }
  part.published = now;
  part.seen = seen_;
  part.tokens = tokens_;
  part.again = 0;
  part.idle = false;
}

void Freshness::on_mixed(FragmentId fragment, double pull, double lag) {
  Part& part = parts_.at(fragment.value);
  const bool known = part.round > 0 || !begun_late_;
  const double most = known ? kRoundsMax * part.round : part.lag;
  part.lag += pull * (std::min(lag, most) - part.lag);
  part.missed -= pull * part.missed;
}

double Freshness::missed() const {
  double sum = 0;
  for (const Part& part : parts_) sum += part.missed;
  return parts_.empty() ? 0 : sum / static_cast<double>(parts_.size());
}

double Freshness::share(FragmentId fragment, double discount) const {
  const Part& part = parts_.at(fragment.value);
  if (!(part.round > 0) && !begun_late_) return 1;
  const double round = part.round > 0 ? part.round : kRoundAtFirst;
  const double rounds = std::min(part.lag / round, kRoundsMax);
  return 1 / (1 + discount * rounds * rounds);
}

}  // namespace starling::gossip
