// Rate weight: how much the weights of this peer count in an exchange, by its speed. A plain mean
// of peers that train at different speeds moves at their mean speed, so the slow ones drag the
// fast. With weights rate^power the conserved mean of a swarm moves at
//
//   sum of rate^(power + 1) / sum of rate^power
//
// of the inner steps: for speeds 1, 1/2, 1/4, 1/10 at 0.46 of the fastest's for power 0, 0.72 for
// 1, 0.86 for 2 and 0.97 for 4, while the variance of its noise, sum of p^2 rate with p =
// rate^power over their sum, falls to 0.06, 0.17, 0.30 and 0.44 of that of one fastest peer for two
// of each speed. A slow peer so is pulled more than it pulls. Measured:
// scripts/evidence/unequal_machines. Pure functions.
#pragma once

#include <algorithm>
#include <cmath>

namespace starling::gossip {

// Never zero, which only newcomers have.
inline constexpr double kRateWeightMin = 1e-30;

// In (0, 1]. `share`: own rate over that of the fastest peer (Core::speed_share()).
inline float rate_weight(double share, double power) {
  const double weight = std::pow(std::clamp(share, 0.0, 1.0), power);
  return static_cast<float>(std::max(weight, kRateWeightMin));
}

}  // namespace starling::gossip
