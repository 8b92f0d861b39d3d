// LoneMixer: a mixer whose trainer and network are the test, with weights of 0.5. Owns all it
// needs; one thread.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <optional>
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
  double moved = 0;  // the first weight of the first stripe, by the corrections so far

  // Carries out an order; of what comes of it, the answer of that kind. Nothing: there is none.
  template <class Answer>
  std::optional<Answer> perform(const gossip::MixerOrder& order,
                                const std::vector<std::byte>& payload = {}) {
    REQUIRE(rings.network_to_mixer.try_push(peer::OrderParcel{order, Bytes::copy_of(payload)}));
    std::optional<Answer> answer;
    do {
      while (auto parcel = rings.mixer_to_network.try_pop()) {
        if (auto* found = std::get_if<Answer>(&*parcel)) answer = std::move(*found);
      }
      while (auto correction = rings.mixer_to_trainer.try_pop()) {
        if (correction->stripe == 0) moved += double{correction->values.floats()[0]};
        REQUIRE(rings.trainer_to_mixer.try_push(peer::CorrectionApplied{correction->stripe}));
      }
    } while (mixer.pump());
    return answer;
  }
};

}  // namespace starling::testing
