// InitiatorStripe: the life of one stripe of one exchange on the side that began it. A plain value:
// copy it, compare it, apply inputs to it; the model check does just that.
//
// Attempts count up from 0. Fencing an attempt is a promise never to apply it; it is made before
// the next attempt or an Abort leaves. "Applied" is the commit point: from there on the stripe ends
// acknowledged, compensated, or orphaned after the give-up time. The transition table is in
// initiator_stripe.cpp and is drawn in README.md. Every (state, input) pair is legal.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace starling::gossip {

class InitiatorStripe {
 public:
  enum class State : std::uint8_t {
    kEncoding,      // the mixer encodes this attempt
    kSent,          // pushed, no delta yet
    kApplying,      // the mixer holds the order to apply; nothing may be promised meanwhile
    kApplied,       // in our weights, answer to Commit outstanding
    kCompensating,  // the mixer holds the order to undo
    kAcked,         // end: applied on both sides
    kCompensated,   // end: applied and undone here, never applied there
    kOrphaned,      // end: applied here, the other side's outcome never learnt
    kDropped,       // end: never applied
  };
  static constexpr std::size_t kStates = 9;

  enum class Input : std::uint8_t {
    kEncoded,
    kEncodeFailed,
    kDelta,
    kApplyDone,
    kApplyFailed,
    kCommitted,
    kAbandoned,
    kQuery,
    kSilence,  // no delta for the stripe timeout
    kRepeat,   // time to say Commit again
    kCompensateDone,
    kGiveUp,
    kClose,  // the exchange is over: start nothing new
  };
  static constexpr std::size_t kInputs = 13;

  // What the owner does next, about attempt(); for kAbort after a Query, about the attempt asked.
  enum class Output : std::uint8_t {
    kNothing,
    kEncode,
    kPush,
    kApply,
    kCommit,
    kAbort,
    kResend,
    kCompensate,
    kForget,
  };

  // Starts in kEncoding with attempt 0; attempts_max >= 1.
  explicit InitiatorStripe(std::uint8_t attempts_max) : attempts_max_(attempts_max) {}
  // From the ledger of a checkpoint: applied, answer unknown.
  static InitiatorStripe restored(std::uint8_t attempt);
  // What is known of a stripe that nothing is remembered of: it was not applied.
  static InitiatorStripe unknown();

  Output apply(Input input, std::uint8_t attempt);
  // An input about the attempt under way.
  Output apply(Input input) { return apply(input, attempt_); }

  State state() const { return state_; }
  std::uint8_t attempt() const { return attempt_; }
  bool ended() const { return state_ >= State::kAcked; }
  friend auto operator<=>(const InitiatorStripe&, const InitiatorStripe&) = default;

 private:
  State state_ = State::kEncoding;
  std::uint8_t attempt_ = 0;
  std::uint8_t attempts_max_ = 1;
};

}  // namespace starling::gossip
