// RunningRate: how much a second, over about the last ten. A step is short or long by chance: where
// a machine has a share of a processor, it comes in slices, and a step in one slice takes a tenth
// of the time of a step across two. What follows from how fast a peer is must not follow that.
//
// Plain values; one thread.
#pragma once

#include <cmath>

namespace starling::peer {

class RunningRate {
 public:
  static constexpr double kSeconds = 10;

  // So much more, in so many seconds (more than zero). Steps longer than kSeconds tell for
  // themselves, and what is older counts for little.
  double add(double amount, double seconds) {
    const double kept = std::exp(-seconds / kSeconds);
    amount_ = kept * amount_ + amount;
    seconds_ = kept * seconds_ + seconds;
    return amount_ / seconds_;
  }

 private:
  double amount_ = 0, seconds_ = 0;
};

}  // namespace starling::peer
