// Mixer: the role that owns the slow weights phi, the outer momentum b, and every delta of an
// exchange that is staged, applied or in doubt. It takes snapshots from the trainer, does the outer
// step, and carries out the protocol core's orders on the weights.
//
// Two facts make it simple. A correction goes to phi here and to theta at the trainer, so
// theta - phi (local progress) never sees gossip. And the trainer's ring is in order, so the
// corrections that a snapshot does not contain yet are exactly the unacknowledged ones.
//
// Thread: its own, which sleeps on the doorbell. May allocate; never reads a clock, never touches
// the device. Whatever arrives from another peer passes the admission gate before it is believed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "gossip/ledger.h"
#include "optim/block_scales.h"
#include "optim/fragment_codec.h"
#include "optim/outer_rule.h"
#include "peer/roles/admission_gate.h"
#include "peer/roles/parcels.h"
#include "peer/states/stripe_table.h"

namespace starling::peer {

struct MixerConfig {
  float clip_factor = 4;       // clip radius over the running RMS difference; 0: no clipping
  std::size_t head_bytes = 0;  // room to leave in front of every payload
};

struct MixerMetrics {
  Counter outer_steps, outer_steps_refused;  // refused: theta was not finite
  Counter payloads_refused;  // by the admission gate; the core counts them by reason
  Counter slots_missing;     // an order could not be carried out for want of a slot
  Counter blocks_skipped, blocks_seen;
  Gauge disagreement;  // running RMS of phi_partner - phi, one parameter
  Gauge displacement;  // running RMS of theta - phi at the outer step
  Gauge gain;          // of the last outer step (optim/outer_stage.h)
};

class Mixer {
 public:
  // `floats` holds slots of the largest stripe, shared with the trainer; `payloads` slots of the
  // largest payload with its head. Both outlive the mixer, and so do rings and metrics.
  Mixer(const MixerConfig& config, const StripeTable& stripes,
        std::unique_ptr<optim::OuterRule> rule, SlotPool& floats, SlotPool& payloads, Rings& rings,
        MixerMetrics& metrics, std::function<void()> wake_network);

  // Before the first pump(): the slow weights of a fresh peer are its initial weights.
  void start(std::span<const float> initial);
  void restore(const CheckpointImage& image);
  std::vector<gossip::LedgerRow> ledger_rows() const { return ledger_.rows(); }

  // Carries out all that is waiting; false if there was nothing.
  bool pump();

  std::span<const float> slow() const noexcept { return slow_; }

 private:
  // Without a slot: a delta may stay in doubt for long, and the slots belong to those who move on.
  struct StagedStripe {
    gossip::PairTerms terms;
    std::vector<std::byte> payload;  // the delta as sent: for a resend, and for the commit
  };
  struct Waiting {  // an order that must be carried out and has no slot yet
    gossip::StripeRef ref;
    bool undo = false;  // true: Compensate; false: ApplyStaged
  };
  struct LastEncoded {
    gossip::StripeRef ref;
    std::uint64_t round = 0;
  };
  struct AppliedDelta {  // at the initiator, until the responder has answered
    gossip::PairTerms terms;
    Bytes payload;
  };

  void handle(Snapshot snapshot);
  void handle(const CorrectionApplied& applied);
  void handle(std::unique_ptr<CheckpointImage> image);

  void carry_out(const gossip::EncodeStripe& order, Bytes payload);
  void carry_out(const gossip::StageDelta& order, Bytes payload);
  void carry_out(const gossip::ReissueDelta& order, Bytes payload);
  void carry_out(const gossip::ApplyDelta& order, Bytes payload);
  void carry_out(const gossip::ApplyStaged& order, Bytes payload);
  void carry_out(const gossip::DropStaged& order, Bytes payload);
  void carry_out(const gossip::Compensate& order, Bytes payload);
  void carry_out(const gossip::ForgetDelta& order, Bytes payload);

  static optim::PairFactors factors_of(const gossip::PairTerms& terms);
  std::optional<std::uint32_t> stripe_of(const gossip::StripeRef& ref) const;
  std::optional<SlotLease> payload_slot(std::span<const std::byte> payload);
  GateStripe gate_stripe(std::uint32_t stripe, const gossip::StripeRef& ref,
                         const gossip::PairTerms& terms, std::uint8_t format) const;
  void note(const gossip::Verdict& verdict);
  void fall_sick(std::string_view what);
  GateTarget target_of(std::uint32_t stripe);
  bool compensate(const gossip::StripeRef& ref);
  bool apply_staged(const gossip::StripeRef& ref);
  bool decodes(std::uint32_t stripe, std::span<const std::byte> delta);
  void decode_again(std::uint32_t stripe, std::span<const std::byte> delta);
  void shift(std::uint32_t stripe, SlotLease correction, float share);
  void correct_trainer(std::uint32_t stripe, SlotLease correction);
  void publish(FragmentId fragment, bool offer);
  // mixer_scales.cpp: how far partners are
  void reset_scales();
  void measure_sizes();
  void restore_usual(FragmentId fragment);
  void save_scales(std::vector<float>& out) const;
  void learn_from(const gossip::StripeRef& ref, const optim::DeltaReport& report);
  void hear_of(std::uint32_t stripe, const optim::DeltaReport& report);
  void note_difference(const optim::DeltaReport& report);
  bool is_far(std::uint32_t stripe, const gossip::Verdict& verdict) const;
  gossip::FragmentState fragment_state(FragmentId fragment) const;
  static void run_rms(Gauge& gauge, double value);
  void send(FromMixer parcel);
  bool refresh_unsent(const FromMixer& parcel);

  const MixerConfig config_;
  const StripeTable& stripes_;
  const std::unique_ptr<optim::OuterRule> rule_;
  SlotPool& floats_;
  SlotPool& payloads_;
  Rings& rings_;
  MixerMetrics& metrics_;
  const std::function<void()> wake_network_;

  std::vector<float> slow_, momentum_;
  std::vector<optim::BlockScales> scales_;             // per stripe
  std::vector<optim::UsualDifference> usual_;          // per stripe
  std::vector<gossip::ExchangeKey> learned_;           // per stripe: from which last
  std::vector<float> steps_;                           // FragmentState::step, per stripe
  std::vector<float> sizes_;                           // RMS of the first weights, per stripe
  std::vector<std::uint64_t> rounds_;                  // per stripe: outer steps so far
  std::vector<LastEncoded> encoded_;                   // per stripe
  bool sick_ = false;                                  // weights of ours were not finite
  std::vector<std::deque<FrozenSlot>> unseen_;         // per stripe: sent, not yet in theta
  std::map<gossip::StripeRef, StagedStripe> staged_;   // bounded by the core's window
  std::map<gossip::StripeRef, AppliedDelta> applied_;  // bounded by the core's settling table
  std::deque<Waiting> waiting_;                        // oldest first; bounded like the two above
  gossip::Ledger ledger_;
  // The network's ring was full. Bounded: an answer to each order, of which a network thread that
  // stands gives no more than its own ring holds; one publication per fragment; one image.
  std::deque<FromMixer> unsent_;
  std::vector<float> difference_;           // of the stripe at hand
  std::vector<optim::BlockReport> blocks_;  // of its blocks
  std::vector<std::int8_t> exponents_;      // one stripe's blocks
};

}  // namespace starling::peer
