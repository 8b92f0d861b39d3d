// ResponderStripe: the life of one stripe of one exchange on the side that was asked. A plain
// value: copy it, compare it, apply inputs to it; the model check does just that.
//
// The responder stages a delta, sends it, and applies it only on Commit, which the initiator says
// after it has applied the opposite. An attempt that was passed over is never staged again. The
// transition table is in responder_stripe.cpp and is drawn in README.md. Every (state, input) pair
// is legal.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace starling::gossip {

class ResponderStripe {
 public:
  enum class State : std::uint8_t {
    kWaiting,   // for a push of attempt() or later
    kStaging,   // the mixer computes the delta of attempt()
    kStaged,    // the delta of attempt() was sent; in doubt until Commit or Abort
    kApplying,  // the mixer holds the order to apply
    kApplied,   // end: in our weights
    kDropped,   // end: will never be applied
  };
  static constexpr std::size_t kStates = 6;

  enum class Input : std::uint8_t {
    kPush,
    kCommit,
    kAbort,
    kResend,
    kStageDone,  // also the answer to kReissue
    kStageFailed,
    kApplyDone,
    kApplyFailed,
    kAsk,  // staged for long: time to query
    kGiveUp,
    kClose,  // the lease is over: stage nothing new
  };
  static constexpr std::size_t kInputs = 11;

  enum class Output : std::uint8_t {
    kNothing,
    kStage,      // the push at hand
    kReissue,    // the staged delta once more
    kSendDelta,  // the delta at hand
    kApply,      // what is staged
    kCommitted,
    kAbandoned,
    kQuery,
  };

  struct Step {
    Output output = Output::kNothing;
    std::uint8_t attempt = 0;  // that the output is about
    bool drop = false;         // first drop what is staged for `dropped`
    std::uint8_t dropped = 0;
  };

  // Starts in kWaiting for attempt 0.
  ResponderStripe() = default;
  // What is known of a stripe after its exchange ended or its process restarted: the ledger says
  // whether `attempt` was applied.
  static ResponderStripe remembered(bool applied, std::uint8_t attempt);

  Step apply(Input input, std::uint8_t attempt);
  Step apply(Input input) { return apply(input, attempt_); }

  State state() const { return state_; }
  std::uint8_t attempt() const { return attempt_; }
  // A push of `attempt` would be staged, and nothing of this stripe is staged or applied now.
  bool stages_next(std::uint8_t attempt) const {
    return state_ == State::kWaiting && attempt >= attempt_;
  }
  bool staged() const { return state_ == State::kStaging || state_ == State::kStaged; }
  friend auto operator<=>(const ResponderStripe&, const ResponderStripe&) = default;

 private:
  State state_ = State::kWaiting;
  std::uint8_t attempt_ = 0;
};

}  // namespace starling::gossip
