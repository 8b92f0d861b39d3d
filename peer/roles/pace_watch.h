// PaceWatch: whether this peer's speed over the fastest one's has changed so much since it was last
// told that people should hear of it: rounds are as long as the fastest peer's
// (outer.local_steps = "dynamic"), and how fast that is is its own word. One owner.
#pragma once

namespace starling::peer {

class PaceWatch {
 public:
  static constexpr double kMuch = 2;     // times
  static constexpr double kSmall = 0.9;  // above it this peer is about the fastest

  static bool is_ahead(double share) { return share >= kSmall; }

  // `share`: in (0, 1].
  bool differs(double share) const {
    if (is_ahead(share)) return !is_ahead(told_);
    return share * kMuch <= told_ || share >= told_ * kMuch;
  }
  void told(double share) { told_ = share; }

 private:
  double told_ = 1;
};

}  // namespace starling::peer
