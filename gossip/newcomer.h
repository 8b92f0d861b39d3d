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
  // So long a restored peer waits for half of those that it knew to tell what they have trained.
  static constexpr Duration kAgeWithin = std::chrono::seconds(5);

  explicit Newcomer(std::size_t fragments) : meetings_(fragments, 0), last_met_(fragments) {}

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
  // Where there are several, nobody counts twice in a row.
  void on_completed(FragmentId fragment, PeerId partner, float partner_weight,
                    std::uint64_t partners) {
    if (!pulled_ || partner_weight <= 0) return;
    const bool again = std::exchange(last_met_.at(fragment.value), partner) == partner;
    if (again && partners > 1) return;
    std::uint8_t& met = meetings_.at(fragment.value);
    if (met < kPulled + kRising) ++met;
    pulled_ = least_met() < kPulled + kRising;
  }
  float weight() const {
    if (!pulled_ || orphaned_) return 1;
    const int risen = least_met() + 1 - kPulled;
    return risen <= 0 ? 0 : static_cast<float>(risen) / (kRising + 1);
  }

 private:
  int least_met() const { return *std::min_element(meetings_.begin(), meetings_.end()); }

  bool decided_ = false;
  bool pulled_ = false;
  bool orphaned_ = false;
  std::vector<std::uint8_t> meetings_;
  std::vector<PeerId> last_met_;  // by fragment
};

}  // namespace starling::gossip
