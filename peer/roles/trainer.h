// Trainer: the role that owns the device, the fast weights theta, their gradients, the AdamW
// moments and the activations. One pump() is one training step and the boundary work before it.
//
// It waits for nothing of the network: corrections are added when they have come (on a GPU one
// boundary later: they cross the bus beside a step), snapshots are
// put off to a later boundary when no slot is free (and skipped and counted when they are still
// waiting at their next turn), and a checkpoint is skipped while the last one is
// still being written. After create() it takes no lock and allocates nothing. What the boundary
// costs is measured as `held_seconds` (held_clock.h).
//
// Thread: its own; metrics may be read from anywhere. Every parcel goes out in program order, which
// is what lets the mixer know exactly which corrections a snapshot contains.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "base/metrics.h"
#include "base/result.h"
#include "model/llama.h"
#include "model/param_layout.h"
#include "optim/inner_adamw.h"
#include "optim/schedule.h"
#include "peer/machine/backend.h"
#include "peer/roles/parcels.h"
#include "peer/roles/running_rate.h"
#include "peer/roles/schedule_clock.h"
#include "peer/roles/token_source.h"
#include "peer/states/stripe_table.h"

namespace starling::peer {

struct TrainerConfig {
  model::LlamaConfig model;
  model::BatchShape batch;
  std::int64_t micro_batch = 0;  // sequences computed at a time, a divisor of all; 0: all
  optim::InnerConfig inner;
  optim::LrConfig schedule;
  optim::FragmentSchedule fragments;
  bool dynamic_steps = false;       // rounds as long as the fastest peer's, by speed_share
  std::uint64_t tokens_budget = 0;  // of this peer; training ends there
  std::uint64_t init_seed = 0;      // the same on every peer of a run
  bool exchanges = true;            // false: plain AdamW, no snapshots, the clock is its own tokens
  std::uint64_t checkpoint_every_steps = 0;  // 0: never
  std::uint64_t validate_every_steps = 0;    // 0: never
  double slow_down_factor = 1;  // for tests: sleeps until a step has taken this many times as long
  bool own_model = true;        // false: compute() is lent one, and nothing else may be called
                                // that needs one
};

struct TrainerMetrics {
  Counter steps, tokens, snapshots, snapshots_skipped, corrections, checkpoints_skipped;
  Counter reports_dropped;
  Counter passes;  // of the model: parts of a step, or of a measurement on held-out batches
  Gauge loss, validation_loss, gradient_norm, learning_rate, tokens_per_second;
  Gauge train_seconds, held_seconds;
  // Written by the network role: the clock of the learning rate; this peer's speed over that of the
  // fastest, 0 where nobody has said; what all are worth (Core::equal_peers()).
  Gauge swarm_tokens, speed_share, equal_peers;
  Gauge steps_per_round;
  Counter checkpoints_wanted;  // by the network role: a newcomer asks, and there is none yet
  Flag finished;               // the budget is spent
  DataMetrics data;            // written by the source of the batches
};

class Trainer {
 public:
  static Result<std::unique_ptr<Trainer>> create(const TrainerConfig& config,
                                                 const model::ParamLayout& layout,
                                                 const StripeTable& stripes, Backend& backend,
                                                 TokenSource& source, SlotPool& slots, Rings& rings,
                                                 TrainerMetrics& metrics);

  // Other first weights than those drawn from init_seed; before the first pump().
  void start_from(std::span<const float> weights);
  // Continues from a checkpoint; before the first pump().
  void restore(const CheckpointImage& image);

  // One boundary and one training step. After the budget is spent: the boundary only.
  void pump();
  // What is due between two steps: corrections, snapshots, images, hand-over.
  void boundary();
  // The two halves of a training step, for those who keep a time of their own: the gradients of the
  // next batch, with a model that many trainers may use in turn; then what AdamW makes of
  // gradients(), whose norm is returned, at `now`.
  void compute(model::Llama& llama);
  float update(Instant now);
  bool finished() const noexcept { return progress_.tokens >= config_.tokens_budget; }
  // Sends the image of the final state at the next boundary.
  void request_final_image() noexcept { final_image_wanted_ = true; }
  // Mean loss of the fast weights over the held-out batches.
  float validate();
  // The same, but nothing where nothing is held out, or once the flag of heed() is raised: whoever
  // is told to end has no time for it.
  std::optional<float> try_validate();
  void heed(const Flag& stop) { stop_ = &stop; }
  // Where there are held-out batches, the report of the step that spends the budget waits for this,
  // so that it has what was measured at the end; empty: it was not. Does nothing where that step
  // was not trained, or not by this process.
  void report_last_step(std::optional<float> validation_loss);

  const TrainerProgress& progress() const noexcept { return progress_; }
  DeviceSpan<const float> weights() const noexcept { return params_.as<float>(); }
  // For those who keep a time of their own, between two of their calls. Asked for each time, as
  // whoever has them may write.
  DeviceSpan<float> weights() noexcept {
    known_ = model::Weights::kNew;
    return params_.as<float>();
  }
  DeviceSpan<float> gradients() noexcept { return gradients_.as<float>(); }
  void copy_into(CheckpointImage& image);

 private:
  struct Outgoing {
    Fence fence;  // the parcel may leave when this is reached
    FromTrainer parcel;
    FrozenSlot held;  // read by the device until then
  };
  struct ArrivingCorrection {
    std::uint32_t stripe;
    DeviceSpan<const float> values;  // in arriving_
    FrozenSlot source;
  };

  Trainer(const TrainerConfig& config, const StripeTable& stripes, Backend& backend,
          TokenSource& source, SlotPool& slots, Rings& rings, TrainerMetrics& metrics);

  void cross_between_steps();
  void apply_corrections();
  void apply_arrived();
  void bring_corrections();
  void cross_beside(Fence computed);
  void add_correction(std::uint32_t stripe, DeviceSpan<const float> values);
  DeviceSpan<bf16> rounded_weights();
  void note_due_fragments();
  std::uint32_t steps_per_round();
  void queue(FragmentId fragment);
  void take_snapshots();
  void snapshot(std::uint32_t stripe);
  void send_due_image();
  void hold_for_copies();  // before whatever writes theta or the moments
  void hand_over();
  void take_batch();
  void make_next_batch(Fence computed);
  double train_step();  // its seconds, without validation
  model::TokenBatch pass_of(std::size_t pass) const;
  std::size_t passes() const { return inputs_.size() / pass_tokens_; }
  float share_of_pass() const { return 1.0F / static_cast<float>(passes()); }
  std::optional<float> measure();  // as validate(); empty: told to end
  void report(float learning_rate, float gradient_norm, double seconds);
  void tell(StepReport step);

  const TrainerConfig config_;
  const StripeTable& stripes_;
  Backend& backend_;
  TokenSource& source_;
  SlotPool& slots_;
  Rings& rings_;
  TrainerMetrics& metrics_;

  Buffer params_, gradients_;
  std::optional<model::Llama> llama_;
  std::optional<optim::InnerAdamW> adamw_;
  // kSame: the model's rounded copy of theta, if there is one, is theta's. Whatever changes theta
  // alone must set kNew.
  model::Weights known_ = model::Weights::kNew;
  std::vector<std::int32_t> inputs_, targets_;
  std::vector<std::int32_t> next_inputs_, next_targets_;
  std::optional<std::uint64_t> next_index_;             // of the batch in them, if there is one
  DataPosition before_next_;                            // where the source stood before it
  std::size_t pass_tokens_ = 0;                         // of inputs_, computed at a time
  float losses_before_ = 0;                             // of the step's passes but the last
  std::optional<optim::FragmentClock> fragment_clock_;  // where there are exchanges
  double speed_share_ = 1;                              // smoothed
  Fence copied_;                                        // the last copy of theta or the moments
  // Where the device is far: corrections that are copied there beside this step, for the next
  // boundary. Room for one in each slot.
  Buffer arriving_;
  std::vector<ArrivingCorrection> arriving_corrections_;
  Fence arrived_;                   // the last of those copies
  Fence added_;                     // the last that read what had arrived
  std::vector<Outgoing> outgoing_;  // oldest first; capacity fixed at start
  std::vector<std::uint32_t> due_;  // stripes to take, in order, each once; capacity likewise
  std::vector<bool> is_due_;        // per stripe
  TrainerProgress progress_;
  RunningRate rate_;  // of tokens
  ScheduleClock schedule_clock_;
  const Flag* stop_ = nullptr;
  std::optional<float> fresh_validation_;
  std::optional<StepReport> last_report_;  // until report_last_step()
  float learning_rate_ = 0;                // of the last step
  bool boundary_done_ = false;             // snapshots of the current step are taken
  bool final_image_wanted_ = false;
  bool final_image_sent_ = false;
  std::uint64_t early_images_ = 0;  // of checkpoints_wanted, those that were seen to
};

}  // namespace starling::peer
