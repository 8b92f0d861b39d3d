// TimedFlatOps: FlatOps that hand every call on to others and measure it, for starling bench.
// Thread: the trainer's. It waits for the device around every call, so nothing overlaps.
#pragma once

#include <memory>

#include "optim/flat_ops.h"
#include "peer/bench/operator_times.h"

namespace starling::peer {

class TimedFlatOps final : public optim::FlatOps {
 public:
  // `device` and `times` must outlive it.
  TimedFlatOps(std::unique_ptr<optim::FlatOps> ops, Device& device, OperatorTimes& times)
      : ops_(std::move(ops)), device_(device), times_(times) {}

  void fill(Lane lane, DeviceSpan<float> target, float value) override;
  void add_scaled(Lane lane, DeviceSpan<float> target, float scale, DeviceSpan<const float> source,
                  DeviceSpan<bf16> rounded) override;
  void squared_norm(Lane lane, DeviceSpan<float> target, DeviceSpan<const float> source) override;
  void adamw(Lane lane, const optim::AdamWScalars& scalars,
             const optim::AdamWRange& range) override;

 private:
  const std::unique_ptr<optim::FlatOps> ops_;
  Device& device_;
  OperatorTimes& times_;
};

}  // namespace starling::peer
