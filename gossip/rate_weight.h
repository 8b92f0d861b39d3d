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
// scripts/evidence/unequal_machines.
//
// The square of that pace over that variance tells how many peers of one speed, averaged alike,
// would have as much signal for as much noise: n of them have n. The outer step follows it
// (optim/outer_stage.h). Pure functions.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace starling::gossip {

// Never zero, which only newcomers have.
inline constexpr double kRateWeightMin = 1e-30;

// In (0, 1]. `share`: own rate over that of the fastest peer (Core::speed_share()).
inline float rate_weight(double share, double power) {
  const double weight = std::pow(std::clamp(share, 0.0, 1.0), power);
  return static_cast<float>(std::max(weight, kRateWeightMin));
}

// How fast the conserved mean moves. `shares`: rates of all peers over that of the fastest, in
// (0, 1]. 1 for none.
inline double mean_pace(std::span<const double> shares, double power) {
  double moved = 0, weights = 0;
  for (const double share : shares) {
    const double weight = rate_weight(share, power);
    moved += weight * share;
    weights += weight;
  }
  return weights > 0 ? moved / weights : 1;
}

// `shares`: likewise. 1 for none.
inline double equal_peers(std::span<const double> shares, double power) {
  double pace = 0, noise = 0;
  for (const double share : shares) {
    const double weight = rate_weight(share, power);
    pace += weight * share;
    noise += weight * weight * share;
  }
  return noise > 0 ? pace * pace / noise : 1;
}

}  // namespace starling::gossip
