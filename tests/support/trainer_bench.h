// TrainerBench: one Trainer on any backend, without the other roles, for tests that look at it
// alone.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "peer/roles/trainer.h"
#include "tests/support/device_floats.h"
#include "tests/support/pattern_batches.h"
#include "tests/support/pumped_swarm.h"

namespace starling::testing {

// A trainer, and somebody who takes what it hands over and sends corrections at fixed steps.
struct TrainerBench {
  TrainerBench(peer::Backend made, bool exchanges,
               std::unique_ptr<peer::TokenSource> batches = std::make_unique<PatternBatches>(7),
               std::uint64_t tokens_budget = 1 << 20)
      : options(small_swarm(3)),
        layout(model::ParamLayout::plan(options.trainer.model, options.fragments).value()),
        stripes(layout),
        backend(std::move(made)),
        source(std::move(batches)),
        slots(backend.device->allocate(MemoryKind::kHostPinned, kSlots * slot_bytes()).value(),
              kSlots),
        rings(kSlots) {
    peer::TrainerConfig config = options.trainer;
    config.exchanges = exchanges;
    config.tokens_budget = tokens_budget;
    config.fragments = {.steps_per_round = 4, .fragments = options.fragments};
    trainer =
        peer::Trainer::create(config, layout, stripes, backend, *source, slots, rings, metrics)
            .value();
  }

  static constexpr std::uint32_t kSlots = 64;
  std::size_t slot_bytes() const {
    return (stripes.parameters_max() * sizeof(float) + 63) / 64 * 64;
  }

  void step() {
    trainer->pump();
    losses.push_back(static_cast<float>(metrics.loss.value()));
    norms.push_back(static_cast<float>(metrics.gradient_norm.value()));
    while (rings.trainer_to_network.try_pop()) continue;
    take();
  }
  void take() {
    while (auto parcel = rings.trainer_to_mixer.try_pop()) {
      if (auto* snapshot = std::get_if<peer::Snapshot>(&*parcel)) {
        const auto count = stripes[snapshot->stripe].range.count;
        const auto values = snapshot->slot.floats().first(count);
        snapshots.push_back({values.begin(), values.end()});
      } else {
        ++applied;
      }
    }
  }
  // No two of its values are alike, nor those of two corrections.
  void correct(std::uint32_t stripe, float value) {
    auto slot = slots.try_acquire();
    REQUIRE(slot);
    const std::size_t count = stripes[stripe].range.count;
    for (std::size_t i = 0; i < count; ++i) {
      slot->floats()[i] = value * (1 + 0.5F * static_cast<float>(i) / static_cast<float>(count));
    }
    REQUIRE(rings.mixer_to_trainer.try_push({stripe, {std::move(*slot), count * sizeof(float)}}));
  }
  void train() {
    for (int i = 0; i < 42; ++i) {  // six times what repeats
      const int sent = i - corrections_late;
      for (int j = 0; j < 3 && (sent % 7 == 3 || sent % 7 == 4); ++j) {
        correct(static_cast<std::uint32_t>(sent + j) % stripes.size(),
                1e-3F * static_cast<float>(sent % 5 - j));
      }
      before_step();
      step();
    }
    for (int i = 0; i < 1000; ++i) {  // far, the last parcels come late
      trainer->boundary();
      take();
    }
  }
  std::vector<float> weights() { return floats_of(*backend.device, trainer->weights()); }

  const PumpedOptions options;
  const model::ParamLayout layout;
  const peer::StripeTable stripes;
  peer::Backend backend;
  const std::unique_ptr<peer::TokenSource> source;
  SlotPool slots;
  peer::Rings rings;
  peer::TrainerMetrics metrics;
  std::unique_ptr<peer::Trainer> trainer;
  std::vector<float> losses, norms;
  std::vector<std::vector<float>> snapshots;
  std::function<void()> before_step = [] {};
  int applied = 0;
  int corrections_late = 0;  // steps
};

}  // namespace starling::testing
