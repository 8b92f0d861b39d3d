// Probes: the questions about others' lives that are open at this peer, its own and those it asks
// for others. SWIM (Das, Gupta, Motivala: "SWIM: scalable weakly-consistent infection-style process
// group membership protocol", DSN 2002, section 3.1): a target is asked directly; if it is silent,
// a few others are asked to try; silence at the end makes it suspect. Lifeguard's negative answers
// tell whether at least those others were heard.
//
// Any message of the target answers. One probe per target, at most kOpenMax; at most kDutiesMax
// questions of others. Knows times and names, sends nothing. Thread: one owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/time.h"
#include "gossip/messages.h"
#include "gossip/timer_set.h"

namespace starling::gossip {

inline constexpr std::size_t kHelpersMax = 3;  // SWIM's k

struct Probe {
  PeerId target;
  std::uint64_t nonce = 0;
  Instant sent_at;
  Instant ask_others_at;
  Instant ends_at;
  std::uint32_t asked = 0;                     // others asked
  std::uint32_t heard = 0;                     // of them, whoever answered at all
  BoundedList<PeerId, kHelpersMax> helpers{};  // those who have not answered yet
};

// Another peer's question about `target`.
struct ProbeDuty {
  PeerId asker;
  std::uint64_t nonce = 0;
  PeerId target;
};

class Probes {
 public:
  static constexpr std::size_t kOpenMax = 64;
  static constexpr std::size_t kDutiesMax = 64;

  bool open(PeerId target) const { return open_.count(target) != 0; }
  // False if there is one for the target already, or no room.
  bool begin(const Probe& probe);
  std::optional<Probe> answered(PeerId target);  // ends it
  void note_asked(PeerId target, const BoundedList<PeerId, kHelpersMax>& helpers);
  // An answer of one that was asked about `target`, its first; anybody else's means nothing.
  bool note_helper(PeerId target, std::uint64_t nonce, PeerId helper);
  // Probes whose target is silent so far: others should be asked, or it is over.
  std::vector<Probe> due_for_help(Instant now);
  std::vector<Probe> due_for_end(Instant now);

  bool owe(const ProbeDuty& duty, Instant until);  // false: too many, or owed already
  std::vector<ProbeDuty> duties_done(PeerId target);
  std::vector<ProbeDuty> duties_due(Instant now);

  std::optional<Instant> next_deadline() const;
  void shift(Duration by);
  void assert_invariants() const;

 private:
  std::map<PeerId, Probe> open_;
  TimerSet<PeerId> help_timers_, end_timers_;
  std::map<std::uint64_t, ProbeDuty> duties_;  // by order of arrival
  TimerSet<std::uint64_t> duty_timers_;
  std::uint64_t next_duty_ = 1;
};

}  // namespace starling::gossip
