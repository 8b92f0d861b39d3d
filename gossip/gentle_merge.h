// GentleMerge: after a split, the two sides must not jump into each other's arms. A fragment's clip
// radius follows how far partners usually differ; when the other side returns it would follow the
// new, far larger difference within an exchange or two and then clip nothing. So from a split on
// the radius that is agreed on falls with the fragment's own as ever, but grows by no more than a
// tenth with every exchange. The sides glide together, and no exchange moves one by more than a
// tenth of the way it has come (a geometric sum) and mixing times the radius at the split, or
// kSteps of its own outer steps, if that is more. A bound
// that stood still would tear a swarm apart whose partners differ more from day to day, as they do
// early in training; and so would one smaller than a few of this peer's own outer steps, for all
// others move on by as much. Those who saw a peer or two vanish could no longer follow them.
// (Clipping keeps the pair antisymmetric: He, Karimireddy, Jaggi, "Byzantine-robust decentralized
// learning via ClippedGossip", arXiv:2202.01545.) No clock. Thread: one owner.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace starling::gossip {

class GentleMerge {
 public:
  // The other side's fragments are first met within this; before, a small radius proves nothing.
  static constexpr Duration kLeast = std::chrono::minutes(10);
  static constexpr Duration kMost = std::chrono::hours(2);  // after healing
  static constexpr Duration kSplitMost = std::chrono::hours(24);
  static constexpr float kGrowth = 1.1F;  // of the bound, by one exchange
  static constexpr float kSteps = 4;      // own outer steps in the smallest bound

  explicit GentleMerge(std::size_t fragments) : caps_(fragments, 0.0F) {}

  // `usual(fragment)`: its clip radius now; 0: none known, or no clipping.
  template <class Usual>
  void on_split(Instant now, Usual&& usual) {
    remember(usual);
    split_at_ = now;
    healed_at_.reset();
  }
  template <class Usual>
  void on_healed(Instant now, Usual&& usual) {
    remember(usual);
    healed_at_ = now;
  }
  // An exchange of the fragment was completed; `wanted` is its own radius.
  void on_completed(FragmentId fragment, float wanted) {
    float& cap = caps_.at(fragment.value);
    if (cap > 0 && wanted > 0) cap = std::min(wanted, cap * kGrowth);
  }
  // `step`: RMS of what this peer's own last round moves the fragment by in the end; 0: not known.
  float radius(Instant now, FragmentId fragment, float wanted, float step) {
    float& cap = caps_.at(fragment.value);
    if (cap > 0 && std::isfinite(step)) cap = std::max(cap, kSteps * step);
    if (cap > 0 && over(now, wanted > 0 && wanted <= cap)) cap = 0;
    if (cap == 0) return wanted;
    return wanted > 0 ? std::min(wanted, cap) : cap;
  }

 private:
  template <class Usual>
  void remember(Usual&& usual) {
    for (std::size_t i = 0; i < caps_.size(); ++i) {
      if (caps_[i] == 0) caps_[i] = usual(FragmentId{static_cast<std::uint16_t>(i)});
    }
  }
  bool over(Instant now, bool calm) const {
    if (!healed_at_) return now - split_at_ > kSplitMost;
    const Duration since = now - *healed_at_;
    return since > kMost || (calm && since > kLeast);
  }

  std::vector<float> caps_;  // the bounds, by fragment; 0: none
  Instant split_at_;
  std::optional<Instant> healed_at_;
};

}  // namespace starling::gossip
