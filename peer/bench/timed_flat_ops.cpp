#include "peer/bench/timed_flat_ops.h"

namespace starling::peer {

namespace {

template <class T>
double size(DeviceSpan<T> span) {
  return static_cast<double>(span.size);
}

}  // namespace

void TimedFlatOps::fill(Lane lane, DeviceSpan<float> target, float value) {
  times_.measure("fill", per_value(size(target), 1, 0), device_,
                 [&] { ops_->fill(lane, target, value); });
}

void TimedFlatOps::add_scaled(Lane lane, DeviceSpan<float> target, float scale,
                              DeviceSpan<const float> source, DeviceSpan<bf16> rounded) {
  Cost cost = per_value(size(target), 3, 2);
  cost.bytes += size(rounded) * sizeof(bf16);
  times_.measure("add scaled", cost, device_,
                 [&] { ops_->add_scaled(lane, target, scale, source, rounded); });
}

void TimedFlatOps::squared_norm(Lane lane, DeviceSpan<float> target,
                                DeviceSpan<const float> source) {
  times_.measure("squared norm", per_value(size(source), 1, 2), device_,
                 [&] { ops_->squared_norm(lane, target, source); });
}

// Reads the parameters, both moments and the gradient, writes all but the gradient, and perhaps the
// parameters in bf16.
void TimedFlatOps::adamw(Lane lane, const optim::AdamWScalars& scalars,
                         const optim::AdamWRange& range) {
  Cost cost = per_value(size(range.param), 7, 14);
  cost.bytes += size(range.rounded) * sizeof(bf16);
  times_.measure("AdamW", cost, device_, [&] { ops_->adamw(lane, scalars, range); });
}

}  // namespace starling::peer
