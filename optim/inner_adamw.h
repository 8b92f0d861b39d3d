// InnerAdamW: the inner optimizer: AdamW with decoupled weight decay over the whole arena, with
// gradients clipped by their global norm.
//
// Sees the model as one flat range; which parts decay is given as consecutive ranges. Owns the two
// moments (device memory, float32, zero at start). Thread: the trainer's; create() at start.
// Errors: create() reports an unusable configuration or no memory; step() cannot fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/device.h"
#include "base/result.h"
#include "optim/flat_ops.h"

namespace starling::optim {

struct InnerConfig {
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;
  float weight_decay = 0.1f;
  float clip_norm = 1.0f;  // zero: no clipping
};

// Consecutive, from zero, covering the arena.
struct DecayRange {
  std::size_t first = 0;
  std::size_t count = 0;
  bool decays = false;
};

class InnerAdamW {
 public:
  // `device` and `ops` outlive the optimizer.
  static Result<InnerAdamW> create(const InnerConfig& config, std::size_t elements,
                                   std::span<const DecayRange> ranges, Device& device,
                                   FlatOps& ops);

  // Of the whole arena. `rounded`: the new parameters in bf16, beside them (AdamWRange).
  struct Arrays {
    DeviceSpan<float> params;
    DeviceSpan<const float> gradients;
    DeviceSpan<bf16> rounded = {};
  };
  // Enqueues one step on the compute lane. `step_number` counts this peer's steps from 1 (bias
  // correction).
  void step(std::uint64_t step_number, float learning_rate, const Arrays& arrays);
  // The norm of the last step's gradients before clipping; where it is not finite, parameters,
  // moments and what is rounded are as before. Waits for the step: the trainer reads the loss at
  // the same place, so this adds no wait of its own.
  float norm();

  // For checkpoints.
  DeviceSpan<float> first_moment() { return moment1_.as<float>().subspan(0, elements_); }
  DeviceSpan<float> second_moment() { return moment2_.as<float>().subspan(0, elements_); }

 private:
  struct Buffers {
    Buffer moment1, moment2, squared_norm, host_norm, borders;
  };
  InnerAdamW(const InnerConfig& config, std::size_t elements, std::size_t borders, Device& device,
             FlatOps& ops, Buffers buffers);

  InnerConfig config_;
  std::size_t elements_, border_count_;
  Device& device_;
  FlatOps& ops_;
  Buffer moment1_, moment2_;
  Buffer squared_norm_;  // one float, on the device
  Buffer host_norm_;     // its copy, pinned
  Buffer borders_;       // where decay ends or begins: AdamWRange
  Fence norm_copied_;
};

}  // namespace starling::optim
