// The outer step of asynchronous pair gossip for one element, on host and device.
//
//   displacement = local - slow;  momentum = alpha * momentum + beta * displacement;
//   slow = slow + momentum;       correction = slow - local
//
// The heavy ball of NoLoCo (Kolehmainen, Blagoev, Donaghy, Ersoy, Nies, "NoLoCo: No-all-reduce low
// communication training method for large models", 2025, outer optimizer) without its gossip term:
// gossip is a separate, additive correction here.
#pragma once

#include "base/host_device.h"

namespace starling::optim {

struct HeavyBallScalars {
  float momentum = 0.0f;       // alpha
  float learning_rate = 0.0f;  // beta
};

struct HeavyBallElement {
  float slow, momentum, local;
};

// `local` holds the snapshot going in and the correction coming out. The correction is taken from
// the rounded slow weight, so that snapshot + correction lands on it.
STARLING_HD inline HeavyBallElement heavy_ball_element(HeavyBallElement state,
                                                       const HeavyBallScalars& scalars) {
  HeavyBallElement next;
  next.momentum =
      scalars.momentum * state.momentum + scalars.learning_rate * (state.local - state.slow);
  next.slow = state.slow + next.momentum;
  next.local = next.slow - state.local;
  return next;
}

}  // namespace starling::optim
