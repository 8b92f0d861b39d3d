#include "gossip/responder_stripe.h"

#include <array>

namespace starling::gossip {
namespace {

using State = ResponderStripe::State;
using Input = ResponderStripe::Input;
using Output = ResponderStripe::Output;

// How the attempt named by the input compares with the stripe's own.
enum : std::uint8_t { kOlder = 1, kSame = 2, kNewer = 4, kNotOlder = kSame | kNewer, kAny = 7 };

// What becomes of the stripe's attempt: it stays, it is the input's, or the one after the input's.
enum class Attempt : std::uint8_t { kKeep, kTake, kPass };

struct Row {
  State state;
  Input input;
  std::uint8_t when;
  State next;
  Output output;
  Attempt attempt = Attempt::kKeep;
  bool drop = false;
};

// Pairs without a row change nothing and ask for nothing.
constexpr std::array kRows{
    Row{State::kWaiting, Input::kPush, kNotOlder, State::kStaging, Output::kStage, Attempt::kTake},
    Row{State::kWaiting, Input::kCommit, kOlder, State::kWaiting, Output::kAbandoned},
    Row{State::kWaiting, Input::kCommit, kNotOlder, State::kWaiting, Output::kAbandoned,
        Attempt::kPass},
    Row{State::kWaiting, Input::kAbort, kNotOlder, State::kWaiting, Output::kNothing,
        Attempt::kPass},
    Row{State::kWaiting, Input::kGiveUp, kAny, State::kDropped, Output::kNothing},
    Row{State::kWaiting, Input::kClose, kAny, State::kDropped, Output::kNothing},

    Row{State::kStaging, Input::kStageDone, kSame, State::kStaged, Output::kSendDelta},
    Row{State::kStaging, Input::kStageFailed, kSame, State::kWaiting, Output::kAbandoned,
        Attempt::kPass},
    Row{State::kStaging, Input::kPush, kNewer, State::kStaging, Output::kStage, Attempt::kTake,
        true},
    Row{State::kStaging, Input::kCommit, kOlder, State::kStaging, Output::kAbandoned},
    Row{State::kStaging, Input::kCommit, kNotOlder, State::kWaiting, Output::kAbandoned,
        Attempt::kPass, true},
    Row{State::kStaging, Input::kAbort, kNotOlder, State::kWaiting, Output::kNothing,
        Attempt::kPass, true},
    // Its delta was never sent, so nobody can have applied it.
    Row{State::kStaging, Input::kGiveUp, kAny, State::kDropped, Output::kNothing, Attempt::kKeep,
        true},
    Row{State::kStaging, Input::kClose, kAny, State::kDropped, Output::kNothing, Attempt::kKeep,
        true},

    Row{State::kStaged, Input::kPush, kSame, State::kStaged, Output::kReissue},
    Row{State::kStaged, Input::kResend, kSame, State::kStaged, Output::kReissue},
    Row{State::kStaged, Input::kStageDone, kSame, State::kStaged, Output::kSendDelta},
    Row{State::kStaged, Input::kPush, kNewer, State::kStaging, Output::kStage, Attempt::kTake,
        true},
    Row{State::kStaged, Input::kCommit, kOlder, State::kStaged, Output::kAbandoned},
    Row{State::kStaged, Input::kCommit, kSame, State::kApplying, Output::kApply},
    Row{State::kStaged, Input::kCommit, kNewer, State::kWaiting, Output::kAbandoned, Attempt::kPass,
        true},
    Row{State::kStaged, Input::kAbort, kNotOlder, State::kWaiting, Output::kNothing, Attempt::kPass,
        true},
    Row{State::kStaged, Input::kAsk, kSame, State::kStaged, Output::kQuery},
    Row{State::kStaged, Input::kGiveUp, kAny, State::kDropped, Output::kNothing, Attempt::kKeep,
        true},

    Row{State::kApplying, Input::kApplyDone, kSame, State::kApplied, Output::kCommitted},
    Row{State::kApplying, Input::kApplyFailed, kSame, State::kDropped, Output::kAbandoned},

    Row{State::kApplied, Input::kCommit, kSame, State::kApplied, Output::kCommitted},
    Row{State::kDropped, Input::kCommit, kAny, State::kDropped, Output::kAbandoned},
};

const Row* find_row(State state, Input input, std::uint8_t relation) {
  for (const Row& row : kRows) {
    if (row.state == state && row.input == input && (row.when & relation) != 0) return &row;
  }
  return nullptr;
}

}  // namespace

ResponderStripe ResponderStripe::remembered(bool applied, std::uint8_t attempt) {
  ResponderStripe stripe;
  stripe.state_ = applied ? State::kApplied : State::kDropped;
  stripe.attempt_ = attempt;
  return stripe;
}

ResponderStripe::Step ResponderStripe::apply(Input input, std::uint8_t attempt) {
  const std::uint8_t relation = attempt < attempt_ ? kOlder : attempt > attempt_ ? kNewer : kSame;
  const Row* row = find_row(state_, input, relation);
  if (row == nullptr) return {};
  const Step step{row->output, attempt, row->drop, attempt_};
  state_ = row->next;
  if (row->attempt == Attempt::kTake) attempt_ = attempt;
  if (row->attempt == Attempt::kPass && attempt < UINT8_MAX) {
    attempt_ = static_cast<std::uint8_t>(attempt + 1);
  }
  return step;
}

}  // namespace starling::gossip
