// FlatOps: element-wise work on ranges of device memory. The CPU's is cpu_flat_ops.h; a CUDA one
// implements the same seam and is tested against it.
//
// Every call only enqueues on its lane (on the CPU it is done when the call returns). Ranges given
// together have one size and do not overlap. Thread: the trainer's. No call allocates.
#pragma once

#include <cstddef>

#include "base/bf16.h"
#include "base/device.h"
#include "optim/adamw_math.h"

namespace starling::optim {

struct AdamWRange {
  DeviceSpan<float> param, moment1, moment2;
  DeviceSpan<const float> gradient;
  // One element, on the device: of all gradients of the step, also of those outside this range.
  DeviceSpan<const float> squared_norm;
  // On the device: the elements at which weights cease to decay, and begin to again, in turn;
  // ascending. What comes before the first decays.
  DeviceSpan<const std::size_t> borders = {};
  // Set to the new parameters rounded to bf16 as base/bf16.h does (which NaN a NaN becomes is
  // open). Empty: nobody wants them.
  DeviceSpan<bf16> rounded = {};
};

class FlatOps {
 public:
  FlatOps() = default;
  FlatOps(const FlatOps&) = delete;
  FlatOps& operator=(const FlatOps&) = delete;
  virtual ~FlatOps() = default;

  virtual void fill(Lane lane, DeviceSpan<float> target, float value) = 0;
  // target += scale * source; `rounded` as AdamWRange's.
  virtual void add_scaled(Lane lane, DeviceSpan<float> target, float scale,
                          DeviceSpan<const float> source, DeviceSpan<bf16> rounded) = 0;
  // target[0] = sum of source[i]^2, summed in double; the same bits for any number of threads.
  virtual void squared_norm(Lane lane, DeviceSpan<float> target,
                            DeviceSpan<const float> source) = 0;
  // One step on the range; nothing at all where the squared norm is not finite, because one such
  // gradient would spoil the moments for good: what is rounded stays as it was, too.
  virtual void adamw(Lane lane, const AdamWScalars& scalars, const AdamWRange& range) = 0;
};

}  // namespace starling::optim
