// UsualDifference: a bound on how far partners usually are from this peer, for one stripe. The clip
// radius follows the last differences, so that a peer which has fallen behind is soon let through;
// but no farther than kSpread times the median over the last partners of what each one's
// differences average to, and no nearer than that part of it. There a partner has one vote however
// often it exchanges: one far-out peer cannot widen the radius without end for its own next push,
// nor one that says it does not differ at all close it for everybody; it takes more than half of
// the last partners. Those should be partners that this peer drew by chance: whoever comes by
// itself can come as often as it likes.
//
// The median alone, as a radius, kept slow peers on thin lines from ever coming after
// (scripts/evidence/adding_peers: the worst of sixteen ended at 1.98 instead of 1.38 nats a byte).
//
// Values come from other peers: a vote grows at most kDifferenceGrowthMax-fold in one exchange.
// Never fails. Thread: one owner (the mixer).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "base/ids.h"

namespace starling::optim {

inline constexpr double kFreshDifference = 0.3;  // weight of the newest exchange in an average
inline constexpr double kDifferenceGrowthMax = 16.0;

// Moves the average towards `value`; the first value is taken whole, growth is bounded.
inline double averaged_difference(double average, double value) {
  if (average == 0.0) return value;
  const double bounded = std::min(value, kDifferenceGrowthMax * average);
  return (1.0 - kFreshDifference) * average + kFreshDifference * bounded;
}

class UsualDifference {
 public:
  static constexpr std::size_t kVotes = 7;
  static constexpr double kSpread = 4;
  // After so many meetings there is nobody else to be met.
  static constexpr std::size_t kMeetings = 16;

  // `rms`: root mean square of a difference, before clipping.
  void observe(PeerId partner, double rms) {
    if (met_ < kMeetings) ++met_;
    forget_restored();
    const auto known = std::span(votes_).first(size_);
    const auto own = std::find_if(known.begin(), known.end(),
                                  [partner](const Vote& vote) { return vote.partner == partner; });
    const double value = own == known.end() ? rms : averaged_difference(own->rms, rms);
    if (own != known.end()) {
      std::rotate(own, own + 1, known.end());  // the newest last
      known.back() = {partner, value};
      return;
    }
    if (size_ == kVotes) std::rotate(votes_.begin(), votes_.begin() + 1, votes_.end());
    if (size_ < kVotes) ++size_;
    votes_[size_ - 1] = {partner, value};
  }

  // What was usual before a restart: nobody's vote, and as many as there is room for. Each meeting
  // takes the place of one.
  void restore(double rms) {
    size_ = kVotes;
    met_ = kMeetings;
    votes_.fill({PeerId{}, rms});
  }
  // How many are known of those there are; kVotes: all.
  std::size_t voters() const { return met_ == kMeetings ? kVotes : size_; }

  double bounded(double rms) const {
    const double usual = median();
    return size_ == 0 ? rms : std::clamp(rms, usual / kSpread, kSpread * usual);
  }

  // 0: no difference was ever seen. Of two in the middle the smaller.
  double median() const {
    std::array<double, kVotes> sorted{};
    if (size_ == 0) return 0;
    std::transform(votes_.begin(), votes_.begin() + size_, sorted.begin(),
                   [](const Vote& vote) { return vote.rms; });
    const auto middle = sorted.begin() + (size_ - 1) / 2;
    std::nth_element(sorted.begin(), middle, sorted.begin() + size_);
    return *middle;
  }

 private:
  struct Vote {
    PeerId partner;
    double rms = 0;
  };
  void forget_restored() {
    if (size_ == 0 || votes_[0].partner != PeerId{}) return;
    std::rotate(votes_.begin(), votes_.begin() + 1, votes_.begin() + size_);
    --size_;
  }

  std::array<Vote, kVotes> votes_{};  // oldest first
  std::size_t size_ = 0;
  std::size_t met_ = 0;
};

}  // namespace starling::optim
