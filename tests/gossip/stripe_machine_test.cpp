#include <doctest/doctest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "gossip/initiator_stripe.h"
#include "gossip/responder_stripe.h"

namespace starling::gossip {
namespace {

using First = InitiatorStripe;
using Second = ResponderStripe;

// Names by which the tables below speak of states and outputs, in the order of the enums.
constexpr std::array kFirstStates{"encoding", "sent",        "applying", "applied", "compensating",
                                  "acked",    "compensated", "orphaned", "dropped"};
constexpr std::array kFirstOutputs{"",      "encode", "push",       "apply", "commit",
                                   "abort", "resend", "compensate", "forget"};
constexpr std::array kFirstInputs{"encoded",      "encode failed", "delta",           "apply done",
                                  "apply failed", "committed",     "abandoned",       "query",
                                  "silence",      "repeat",        "compensate done", "give up",
                                  "close"};
constexpr std::array kSecondStates{"waiting",  "staging", "staged",
                                   "applying", "applied", "dropped"};
constexpr std::array kSecondOutputs{"",      "stage",     "reissue",   "send delta",
                                    "apply", "committed", "abandoned", "query"};
constexpr std::array kSecondInputs{"push",       "commit",       "abort",      "resend",
                                   "stage done", "stage failed", "apply done", "apply failed",
                                   "ask",        "give up",      "close"};

// A machine at attempt 1 of 3, so that there are older and newer ones.
First first_in(First::State state, std::uint8_t attempts_max = 3) {
  First machine(attempts_max);
  using Input = First::Input;
  machine.apply(Input::kEncoded);
  machine.apply(Input::kSilence);
  const auto walk = [&](const std::vector<Input>& inputs) {
    for (const Input input : inputs) machine.apply(input);
    return machine;
  };
  switch (state) {
    case First::State::kEncoding: return machine;
    case First::State::kSent: return walk({Input::kEncoded});
    case First::State::kApplying: return walk({Input::kEncoded, Input::kDelta});
    case First::State::kApplied: return walk({Input::kEncoded, Input::kDelta, Input::kApplyDone});
    case First::State::kCompensating:
      return walk({Input::kEncoded, Input::kDelta, Input::kApplyDone, Input::kAbandoned});
    case First::State::kAcked:
      return walk({Input::kEncoded, Input::kDelta, Input::kApplyDone, Input::kCommitted});
    case First::State::kCompensated:
      return walk({Input::kEncoded, Input::kDelta, Input::kApplyDone, Input::kAbandoned,
                   Input::kCompensateDone});
    case First::State::kOrphaned:
      return walk({Input::kEncoded, Input::kDelta, Input::kApplyDone, Input::kGiveUp});
    case First::State::kDropped: return walk({Input::kEncodeFailed});
  }
  return machine;
}

Second second_in(Second::State state) {
  Second machine;
  using Input = Second::Input;
  machine.apply(Input::kAbort, 0);
  const auto walk = [&](const std::vector<Input>& inputs) {
    for (const Input input : inputs) machine.apply(input, 1);
    return machine;
  };
  switch (state) {
    case Second::State::kWaiting: return machine;
    case Second::State::kStaging: return walk({Input::kPush});
    case Second::State::kStaged: return walk({Input::kPush, Input::kStageDone});
    case Second::State::kApplying: return walk({Input::kPush, Input::kStageDone, Input::kCommit});
    case Second::State::kApplied:
      return walk({Input::kPush, Input::kStageDone, Input::kCommit, Input::kApplyDone});
    case Second::State::kDropped: return walk({Input::kClose});
  }
  return machine;
}

// "state input -> state attempt / output", one line per pair that does anything.
std::string first_line(First::State state, First::Input input, std::uint8_t attempt,
                       std::uint8_t attempts_max) {
  First machine = first_in(state, attempts_max);
  const First before = machine;
  const First::Output output = machine.apply(input, attempt);
  if (machine == before && output == First::Output::kNothing) return "";
  std::string line = kFirstStates[static_cast<std::size_t>(state)];
  line += std::string(", ") + kFirstInputs[static_cast<std::size_t>(input)];
  line += std::string(" -> ") + kFirstStates[static_cast<std::size_t>(machine.state())];
  line += " " + std::to_string(machine.attempt());
  return line + " / " + kFirstOutputs[static_cast<std::size_t>(output)] + "\n";
}

std::string first_table(std::uint8_t attempt, std::uint8_t attempts_max) {
  std::string table;
  for (std::size_t state = 0; state < First::kStates; ++state) {
    for (std::size_t input = 0; input < First::kInputs; ++input) {
      table += first_line(static_cast<First::State>(state), static_cast<First::Input>(input),
                          attempt, attempts_max);
    }
  }
  return table;
}

std::string second_line(Second::State state, Second::Input input, std::uint8_t attempt) {
  Second machine = second_in(state);
  const Second before = machine;
  const Second::Step step = machine.apply(input, attempt);
  if (machine == before && step.output == Second::Output::kNothing && !step.drop) return "";
  std::string line = kSecondStates[static_cast<std::size_t>(state)];
  line += std::string(", ") + kSecondInputs[static_cast<std::size_t>(input)];
  line += std::string(" -> ") + kSecondStates[static_cast<std::size_t>(machine.state())];
  line += " " + std::to_string(machine.attempt()) + " /";
  if (step.drop) line += " drop " + std::to_string(step.dropped);
  if (step.output != Second::Output::kNothing) {
    CHECK(step.attempt == attempt);
    line += std::string(" ") + kSecondOutputs[static_cast<std::size_t>(step.output)];
  }
  return line + "\n";
}

std::string second_table(std::uint8_t attempt) {
  std::string table;
  for (std::size_t state = 0; state < Second::kStates; ++state) {
    for (std::size_t input = 0; input < Second::kInputs; ++input) {
      table += second_line(static_cast<Second::State>(state), static_cast<Second::Input>(input),
                           attempt);
    }
  }
  return table;
}

}  // namespace

TEST_CASE("every state and input of an initiator's stripe does what the table says") {
  CHECK(first_table(1, 3) ==
        "encoding, encoded -> sent 1 / push\n"
        "encoding, encode failed -> dropped 1 / abort\n"
        "encoding, close -> dropped 1 / abort\n"
        "sent, delta -> applying 1 / apply\n"
        "sent, abandoned -> dropped 1 / \n"
        "sent, query -> sent 1 / resend\n"
        "sent, silence -> encoding 2 / encode\n"
        "sent, close -> dropped 1 / abort\n"
        "applying, apply done -> applied 1 / commit\n"
        "applying, apply failed -> encoding 2 / encode\n"
        "applying, close -> applying 1 / \n"  // no attempt after this one
        "applied, committed -> acked 1 / forget\n"
        "applied, abandoned -> compensating 1 / compensate\n"
        "applied, query -> applied 1 / commit\n"
        "applied, repeat -> applied 1 / commit\n"
        "applied, give up -> orphaned 1 / forget\n"
        "applied, close -> applied 1 / \n"
        "compensating, query -> compensating 1 / abort\n"
        "compensating, compensate done -> compensated 1 / \n"
        "compensating, close -> compensating 1 / \n"
        "acked, close -> acked 1 / \n"
        "compensated, query -> compensated 1 / abort\n"
        "compensated, close -> compensated 1 / \n"
        "orphaned, query -> orphaned 1 / abort\n"
        "orphaned, close -> orphaned 1 / \n"
        "dropped, query -> dropped 1 / abort\n"
        "dropped, close -> dropped 1 / \n");
}

TEST_CASE("the last attempt of an initiator's stripe is dropped instead of repeated") {
  const std::string table = first_table(1, 2);
  CHECK(table.find("sent, silence -> dropped 1 / abort\n") != std::string::npos);
  CHECK(table.find("applying, apply failed -> dropped 1 / abort\n") != std::string::npos);
}

TEST_CASE("a closed exchange starts no further attempt") {
  First machine = first_in(First::State::kApplying);
  machine.apply(First::Input::kClose);
  CHECK(machine.apply(First::Input::kApplyFailed) == First::Output::kAbort);
  CHECK(machine.state() == First::State::kDropped);
}

TEST_CASE("an initiator's stripe answers for older attempts in every state and ignores the rest") {
  for (std::size_t state = 0; state < First::kStates; ++state) {
    for (std::size_t input = 0; input < First::kInputs; ++input) {
      for (const std::uint8_t attempt : {std::uint8_t{0}, std::uint8_t{2}}) {
        First machine = first_in(static_cast<First::State>(state));
        const First before = machine;
        const auto name = static_cast<First::Input>(input);
        const bool fenced = name == First::Input::kQuery && attempt == 0;
        CHECK(machine.apply(name, attempt) ==
              (fenced ? First::Output::kAbort : First::Output::kNothing));
        CHECK(machine == before);
      }
    }
  }
}

TEST_CASE("a stripe that nothing is remembered of was not applied") {
  First machine = First::unknown();
  CHECK(machine.apply(First::Input::kQuery, 0) == First::Output::kAbort);
  CHECK(machine.apply(First::Input::kDelta, 0) == First::Output::kNothing);
  CHECK(First::restored(2).state() == First::State::kApplied);
  CHECK(First::restored(2).attempt() == 2);
}

TEST_CASE("every state and input of a responder's stripe does what the table says") {
  CHECK(second_table(1) ==
        "waiting, push -> staging 1 / stage\n"
        "waiting, commit -> waiting 2 / abandoned\n"
        "waiting, abort -> waiting 2 /\n"
        "waiting, give up -> dropped 1 /\n"
        "waiting, close -> dropped 1 /\n"
        "staging, commit -> waiting 2 / drop 1 abandoned\n"
        "staging, abort -> waiting 2 / drop 1\n"
        "staging, stage done -> staged 1 / send delta\n"
        "staging, stage failed -> waiting 2 / abandoned\n"
        "staging, give up -> dropped 1 / drop 1\n"
        "staging, close -> dropped 1 / drop 1\n"
        "staged, push -> staged 1 / reissue\n"
        "staged, commit -> applying 1 / apply\n"
        "staged, abort -> waiting 2 / drop 1\n"
        "staged, resend -> staged 1 / reissue\n"
        "staged, stage done -> staged 1 / send delta\n"
        "staged, ask -> staged 1 / query\n"
        "staged, give up -> dropped 1 / drop 1\n"
        "applying, apply done -> applied 1 / committed\n"
        "applying, apply failed -> dropped 1 / abandoned\n"
        "applied, commit -> applied 1 / committed\n"
        "dropped, commit -> dropped 1 / abandoned\n");
}

TEST_CASE("a responder's stripe follows a newer attempt and never goes back to an older one") {
  CHECK(second_table(2) ==
        "waiting, push -> staging 2 / stage\n"
        "waiting, commit -> waiting 3 / abandoned\n"
        "waiting, abort -> waiting 3 /\n"
        "waiting, give up -> dropped 1 /\n"
        "waiting, close -> dropped 1 /\n"
        "staging, push -> staging 2 / drop 1 stage\n"
        "staging, commit -> waiting 3 / drop 1 abandoned\n"
        "staging, abort -> waiting 3 / drop 1\n"
        "staging, give up -> dropped 1 / drop 1\n"
        "staging, close -> dropped 1 / drop 1\n"
        "staged, push -> staging 2 / drop 1 stage\n"
        "staged, commit -> waiting 3 / drop 1 abandoned\n"
        "staged, abort -> waiting 3 / drop 1\n"
        "staged, give up -> dropped 1 / drop 1\n"
        "dropped, commit -> dropped 1 / abandoned\n");
  CHECK(second_table(0) ==
        "waiting, commit -> waiting 1 / abandoned\n"
        "waiting, give up -> dropped 1 /\n"
        "waiting, close -> dropped 1 /\n"
        "staging, commit -> staging 1 / abandoned\n"
        "staging, give up -> dropped 1 / drop 1\n"
        "staging, close -> dropped 1 / drop 1\n"
        "staged, commit -> staged 1 / abandoned\n"
        "staged, give up -> dropped 1 / drop 1\n"
        "dropped, commit -> dropped 1 / abandoned\n");
}

TEST_CASE("the ledger's word decides about a stripe of a former life") {
  auto applied = Second::remembered(true, 1);
  auto dropped = Second::remembered(false, 1);
  CHECK(applied.apply(Second::Input::kCommit, 1).output == Second::Output::kCommitted);
  CHECK(dropped.apply(Second::Input::kCommit, 1).output == Second::Output::kAbandoned);
  CHECK(applied.apply(Second::Input::kPush, 1).output == Second::Output::kNothing);
  CHECK(dropped.apply(Second::Input::kPush, 1).output == Second::Output::kNothing);
}

}  // namespace starling::gossip
