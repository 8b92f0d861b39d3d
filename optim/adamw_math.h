// AdamW for one element, on host and device: the CPU loop and the CUDA kernel call this same code,
// so they cannot drift apart.
//
// Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019, algorithm 2, with the
// decay times the learning rate as in PyTorch; clipping by global norm: Pascanu, Mikolov, Bengio,
// "On the difficulty of training recurrent neural networks", ICML 2013, algorithm 1.
#pragma once

#include <cmath>

#include "base/host_device.h"

namespace starling::optim {

// What is the same for every element of one step.
struct AdamWScalars {
  float beta1 = 0.0f;
  float beta2 = 0.0f;
  float epsilon = 0.0f;
  float decay_factor = 1.0f;        // 1 - learning rate * weight decay; 1 for what does not decay
  float step_size = 0.0f;           // learning rate / (1 - beta1^t)
  float moment2_root_scale = 1.0f;  // 1 / sqrt(1 - beta2^t)
  float clip_norm = 0.0f;           // zero: gradients are not clipped
};

struct AdamWElement {
  float param, moment1, moment2;
};

// What gradients are multiplied with so that their norm is at most clip_norm.
STARLING_HD inline float clip_scale(float squared_norm, float clip_norm) {
  const float norm = std::sqrt(squared_norm);
  return clip_norm > 0.0f && norm > clip_norm ? clip_norm / norm : 1.0f;
}

STARLING_HD inline AdamWElement adamw_element(AdamWElement state, float gradient,
                                              const AdamWScalars& scalars) {
  AdamWElement next;
  next.moment1 = scalars.beta1 * state.moment1 + (1.0f - scalars.beta1) * gradient;
  next.moment2 = scalars.beta2 * state.moment2 + (1.0f - scalars.beta2) * gradient * gradient;
  const float denominator = std::sqrt(next.moment2) * scalars.moment2_root_scale + scalars.epsilon;
  next.param =
      state.param * scalars.decay_factor - scalars.step_size * (next.moment1 / denominator);
  return next;
}

}  // namespace starling::optim
