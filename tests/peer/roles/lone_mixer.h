// LoneMixer: a mixer whose trainer and network are the test, with weights of 0.5. Owns all it
// needs; one thread.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "base/cpu_device.h"
#include "peer/roles/mixer.h"
#include "tests/support/pumped_swarm.h"

namespace starling::testing {

struct LoneMixer {
  explicit LoneMixer(const PumpedOptions& with = small_swarm(15)) : options(with) {
    mixer.start(initial);
  }

  const PumpedOptions options;
  const model::ParamLayout layout =
      model::ParamLayout::plan(options.trainer.model, options.fragments).value();
  const peer::StripeTable stripes{layout};
  CpuDevice device;
  const std::size_t slot_bytes = (stripes.parameters_max() * sizeof(float) + 63) / 64 * 64;
  SlotPool floats{device.allocate(MemoryKind::kHostPinned, 4 * slot_bytes).value(), 4};
  SlotPool payloads{device.allocate(MemoryKind::kHostPinned, 4 * slot_bytes).value(), 4};
  peer::Rings rings{4};
  peer::MixerMetrics metrics;
  peer::Mixer mixer{{},      stripes,  optim::make_outer_rule(options.outer).value(),
                    floats,  payloads, rings,
                    metrics, [] {}};
  const std::vector<float> initial = std::vector<float>(layout.elements(), 0.5F);
};

}  // namespace starling::testing
