// Outer steps for one element, on host and device. Displacements point the way of progress: local -
// slow, the negative of what papers call an outer gradient.
//
// Asynchronous pair gossip:
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

// The outer optimizer of DiLoCo and its relatives: Nesterov's momentum in the form of PyTorch
// (Sutskever et al., "On the importance of initialization and momentum in deep learning", ICML
// 2013).
//
//   momentum = mu * momentum + displacement;  slow = slow + eta * (displacement + mu * momentum)
struct NesterovScalars {
  float momentum = 0.0f;       // mu
  float learning_rate = 0.0f;  // eta
};

struct NesterovElement {
  float slow, momentum;
};

STARLING_HD inline NesterovElement nesterov_element(NesterovElement state, float displacement,
                                                    const NesterovScalars& scalars) {
  NesterovElement next;
  next.momentum = scalars.momentum * state.momentum + displacement;
  next.slow =
      state.slow + scalars.learning_rate * (displacement + scalars.momentum * next.momentum);
  return next;
}

}  // namespace starling::optim
