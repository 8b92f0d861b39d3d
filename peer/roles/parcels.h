// Everything that ever crosses a thread: parcels, the rings they travel in, and who may be at
// either end. A parcel is moved, never shared; dropping one anywhere returns its slot to its pool.
//
//   trainer --Snapshot, CorrectionApplied, CheckpointImage--> mixer
//   trainer <--CorrectionParcel-- mixer
//   mixer   --FragmentPublished, Encoded, Staged, Applied, Compensated, Sick, CheckpointImage-->
//           network
//   mixer   <--OrderParcel-- network
//   trainer --StepReport--> network (who writes the metrics)
//   trainer --PartFinished, PartsHeld--> network, trainer <--PartNews-- network
//   (files/data_parts.h)
//
// The unit everywhere is the stripe: at most optim::kStripeParameters parameters of one fragment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/metrics.h"
#include "base/slot_pool.h"
#include "base/spsc_ring.h"
#include "gossip/core.h"
#include "gossip/driver.h"
#include "optim/outer_stage.h"
#include "peer/files/checkpoint_image.h"
#include "peer/files/data_parts.h"

namespace starling::peer {

// theta of one stripe as it was between two steps. `last`: the fragment's last stripe.
struct Snapshot {
  std::uint32_t stripe = 0;  // index into StripeTable
  bool last = false;
  SlotLease slot;
  optim::OuterStage stage = {};  // at that time
};

// The trainer has added the oldest correction of this stripe to theta.
struct CorrectionApplied {
  std::uint32_t stripe = 0;
};

using FromTrainer = std::variant<Snapshot, CorrectionApplied, std::unique_ptr<CheckpointImage>>;

// To be added to theta of one stripe between two steps, whenever it arrives.
struct CorrectionParcel {
  std::uint32_t stripe = 0;
  FrozenSlot values;
};

// An order of the protocol core with the payload it works on.
struct OrderParcel {
  gossip::MixerOrder order;
  Bytes payload;
};

struct FragmentPublished {
  FragmentId fragment;
  gossip::FragmentState state;
  bool offer = true;  // false: only the state is news
};
// Done: the slot holds room for the link's head, then `payload_bytes` of payload.
struct Encoded {
  gossip::StripeRef ref;
  gossip::Verdict verdict;
  std::optional<SlotLease> slot;
  std::size_t payload_bytes = 0;
};
struct Staged {
  gossip::StripeRef ref;
  gossip::Verdict verdict;
  std::optional<SlotLease> slot;
  std::size_t payload_bytes = 0;
};
struct Applied {
  gossip::StripeRef ref;
  gossip::Verdict verdict;
};
// Weights of this peer are not finite. Said once.
struct Sick {
  std::string_view what;  // which weights, in words that live for ever
};
struct Compensated {
  gossip::StripeRef ref;
};
using FromMixer = std::variant<FragmentPublished, Encoded, Staged, Applied, Compensated, Sick,
                               std::unique_ptr<CheckpointImage>>;

// What one training step has to tell; for the metrics.
struct StepReport {
  std::uint64_t step = 0;
  std::uint64_t tokens = 0;  // of this peer
  double swarm_tokens = 0;   // the clock that the learning rate followed
  float loss = 0;
  float learning_rate = 0;
  float gradient_norm = 0;
  double step_seconds = 0;
  std::optional<float> validation_loss;
};

// One producer and one consumer each, as drawn above.
struct Rings {
  explicit Rings(std::uint32_t slots);

  SpscRing<FromTrainer> trainer_to_mixer;
  SpscRing<CorrectionParcel> mixer_to_trainer;
  SpscRing<FromMixer> mixer_to_network;
  SpscRing<OrderParcel> network_to_mixer;
  SpscRing<StepReport> trainer_to_network;  // drops when full
  SpscRing<std::variant<PartFinished, PartsHeld>> parts_to_network;
  SpscRing<PartNews> parts_to_trainer;
  SpscRing<std::unique_ptr<CheckpointImage>> images_to_trainer;  // disk -> trainer, when written
  Doorbell mixer_bell;
};

}  // namespace starling::peer
