#include "gossip/initiator_stripe.h"

#include <array>

#include "base/assert.h"

namespace starling::gossip {
namespace {

using State = InitiatorStripe::State;
using Input = InitiatorStripe::Input;
using Output = InitiatorStripe::Output;

struct Row {
  State state;
  Input input;
  State next;
  Output output;
  bool fence = false;  // give up this attempt; another one follows while some are left
};

// Pairs without a row change nothing and ask for nothing.
constexpr std::array kRows{
    Row{State::kEncoding, Input::kEncoded, State::kSent, Output::kPush},
    Row{State::kEncoding, Input::kEncodeFailed, State::kDropped, Output::kAbort},
    Row{State::kEncoding, Input::kClose, State::kDropped, Output::kAbort},

    Row{State::kSent, Input::kDelta, State::kApplying, Output::kApply},
    Row{State::kSent, Input::kAbandoned, State::kDropped, Output::kNothing},
    Row{State::kSent, Input::kQuery, State::kSent, Output::kResend},
    Row{State::kSent, Input::kSilence, State::kDropped, Output::kAbort, true},
    Row{State::kSent, Input::kClose, State::kDropped, Output::kAbort},

    // An Abandoned that comes now is said again when Commit reaches the responder.
    Row{State::kApplying, Input::kApplyDone, State::kApplied, Output::kCommit},
    Row{State::kApplying, Input::kApplyFailed, State::kDropped, Output::kAbort, true},

    Row{State::kApplied, Input::kCommitted, State::kAcked, Output::kForget},
    Row{State::kApplied, Input::kAbandoned, State::kCompensating, Output::kCompensate},
    Row{State::kApplied, Input::kQuery, State::kApplied, Output::kCommit},
    Row{State::kApplied, Input::kRepeat, State::kApplied, Output::kCommit},
    Row{State::kApplied, Input::kGiveUp, State::kOrphaned, Output::kForget},

    Row{State::kCompensating, Input::kCompensateDone, State::kCompensated, Output::kNothing},
    Row{State::kCompensating, Input::kQuery, State::kCompensating, Output::kAbort},

    Row{State::kCompensated, Input::kQuery, State::kCompensated, Output::kAbort},
    Row{State::kOrphaned, Input::kQuery, State::kOrphaned, Output::kAbort},
    Row{State::kDropped, Input::kQuery, State::kDropped, Output::kAbort},
};

const Row* find_row(State state, Input input) {
  for (const Row& row : kRows) {
    if (row.state == state && row.input == input) return &row;
  }
  return nullptr;
}

}  // namespace

InitiatorStripe InitiatorStripe::restored(std::uint8_t attempt) {
  InitiatorStripe stripe(1);
  stripe.state_ = State::kApplied;
  stripe.attempt_ = attempt;
  return stripe;
}

InitiatorStripe InitiatorStripe::unknown() {
  InitiatorStripe stripe(1);
  stripe.state_ = State::kDropped;
  stripe.attempt_ = UINT8_MAX;
  return stripe;
}

Output InitiatorStripe::apply(Input input, std::uint8_t attempt) {
  if (attempt != attempt_) {
    // Every attempt before this one is fenced, whatever became of this one.
    const bool fenced = input == Input::kQuery && attempt < attempt_;
    return fenced ? Output::kAbort : Output::kNothing;
  }
  if (input == Input::kClose) attempts_max_ = 1;
  const Row* row = find_row(state_, input);
  if (row == nullptr) return Output::kNothing;
  if (row->fence && attempt_ + 1 < attempts_max_) {
    ++attempt_;
    state_ = State::kEncoding;
    return Output::kEncode;
  }
  state_ = row->next;
  return row->output;
}

}  // namespace starling::gossip
