// VirtualPeer: one peer of a simulated swarm: a real trainer on text of its own, without threads,
// sockets or files, and how fast it is. Its model is lent for each step: of activations there are
// only as many as threads. What it costs in memory are its weights, their gradients and AdamW's two
// moments, and what its method adds.
//
// Thread: one owner; compute() of different peers may run at the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/rng.h"
#include "base/slot_pool.h"
#include "model/llama.h"
#include "peer/config/config.h"
#include "peer/machine/backend.h"
#include "peer/roles/dataset_source.h"
#include "peer/roles/running_rate.h"
#include "peer/roles/trainer.h"
#include "peer/states/stripe_table.h"

namespace starling::peer {

// What all peers of a simulation share, read-only. Outlives them.
struct VirtualWorld {
  PeerConfig config;
  model::ParamLayout layout;
  StripeTable stripes;
  Dataset training;
  std::vector<float> start;  // weights that all begin with; empty: drawn from run.seed

  ReadingPlan reading(std::uint64_t stream) const;
};
Result<VirtualWorld> open_world(const PeerConfig& config);

// How the time of a step comes about.
struct VirtualPace {
  Duration step{};  // at speed 1
  double speed = 1;
  double jitter = 0;
  double change_factor = 1;
  Duration change_every{};
};

class VirtualPeer {
 public:
  // `slots`: buffers of each kind for exchanges; 0: the trainer takes no snapshots.
  static Result<std::unique_ptr<VirtualPeer>> create(const VirtualWorld& world,
                                                     std::uint32_t number, const VirtualPace& pace,
                                                     std::uint32_t slots);

  Trainer& trainer() noexcept { return *trainer_; }
  const Trainer& trainer() const noexcept { return *trainer_; }
  SlotPool& floats() noexcept { return floats_; }
  SlotPool& payloads() noexcept { return payloads_; }
  Rings& rings() noexcept { return rings_; }
  std::span<const float> weights() const;

  // The swarm's tokens as it knows them from now on: what its learning rate follows.
  void learn_clock(double tokens) { metrics_.swarm_tokens.set(tokens); }
  // Its speed over that of the fastest, likewise.
  void learn_speed(double share) { metrics_.speed_share.set(share); }
  void learn_equal_peers(double count) { metrics_.equal_peers.set(count); }
  void compute(model::Llama& llama) { trainer_->compute(llama); }

  // The time of the step that begins at `now`.
  Duration draw_step(Instant now);
  // As a real peer tells it; before any step: as planned.
  double steps_per_second() const { return steps_per_second_; }

 private:
  struct Pool {
    Buffer memory;
    std::uint32_t slots = 0;
  };
  VirtualPeer(const VirtualWorld& world, std::uint32_t number, const VirtualPace& pace,
              Backend backend, Pool floats, Pool payloads);
  static Result<Pool> pool(Device& device, std::uint32_t slots, std::size_t slot_bytes);

  const VirtualPace pace_;
  Rng rng_;
  double slower_ = 1;  // by now
  Instant next_change_;
  RunningRate rate_;  // of steps
  double steps_per_second_;
  Backend backend_;
  SlotPool floats_, payloads_;
  Rings rings_;
  TrainerMetrics metrics_;
  DatasetSource source_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace starling::peer
