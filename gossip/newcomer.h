// Newcomer: with what weight this peer mixes. One that has trained far less than the swarm, or was
// restored from a checkpoint since which the others have trained for too long (fall_behind()), is
// pulled towards the others (weight 0) without pulling them, until each of its fragments has met
// partners that have weight kPulled times; then with each further one its weight rises by the same,
// to 1 after kRising. For everybody else it is 1. Decided once, when the first news of others'
// tokens arrives (of a restored peer within kAgeWithin of it); where all who had trained more are
// gone its weight is 1 until some are back, or newcomers that are left alone would pull nobody,
// each other neither, for ever. Thread: one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace starling::gossip {

class Newcomer {
 public:
  static constexpr std::uint8_t kPulled = 2, kRising = 3;
  static constexpr std::uint32_t kInARow = 8;
  // So long a restored peer waits for half of those that it knew to tell what they have trained.
  static constexpr Duration kAgeWithin = std::chrono::seconds(5);

  explicit Newcomer(std::size_t fragments) : met_(fragments) {}

  bool decided() const { return decided_; }
  // `others_mean`: mean tokens of the other live peers, in which none counts for more than the
  // upper quartile, for one liar must not make all others newcomers; `threshold`: below it nobody
  // is behind.
  void decide(double own, double others_mean, double threshold) {
    if (decided_) return;
    decided_ = true;
    pulled_ = others_mean > threshold && own < others_mean / 2;
  }
  // However much it has trained, its weights are too old.
  void fall_behind() { pulled_ = true; }
  bool pulled() const { return pulled_; }
  // Whether all who had trained more are gone: then it counts as if it were none.
  void set_orphaned(bool orphaned) { orphaned_ = orphaned; }
  bool orphaned() const { return orphaned_; }
  // Every stripe of the fragment was mixed with one of so many partners, which has this weight.
  // Where there are several, nobody counts twice in a row, but for every kInARow times: the others
  // may be there and exchange nothing, or be newcomers, too.
  void on_completed(FragmentId fragment, PeerId partner, float partner_weight,
                    std::uint64_t partners) {
    if (!pulled_) return;
    Met& met = met_.at(fragment.value);
    const bool again = std::exchange(met.last, partner) == partner;
    met.in_a_row = again ? met.in_a_row + 1 : 0;
    if (partner_weight <= 0) return;
    if (again && partners > 1 && met.in_a_row % kInARow != 0) return;
    if (met.times < kPulled + kRising) ++met.times;
    pulled_ = least_met() < kPulled + kRising;
  }
  float weight() const {
    if (!pulled_ || orphaned_) return 1;
    const int risen = least_met() + 1 - kPulled;
    return risen <= 0 ? 0 : static_cast<float>(risen) / (kRising + 1);
  }

 private:
  struct Met {
    std::uint8_t times = 0;  // that counted
    std::uint32_t in_a_row = 0;
    PeerId last;
  };
  int least_met() const {
    const auto fewer = [](const Met& one, const Met& other) { return one.times < other.times; };
    return std::min_element(met_.begin(), met_.end(), fewer)->times;
  }

  bool decided_ = false;
  bool pulled_ = false;
  bool orphaned_ = false;
  std::vector<Met> met_;  // by fragment
};

}  // namespace starling::gossip
