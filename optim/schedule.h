// When and how fast: the learning rate as a function of the tokens the whole swarm has seen, and
// which fragment is due for its outer step. Pure functions.
//
// Peers run different step counts, so the schedule follows the swarm's token clock; only the
// warm-up after joining follows a peer's own steps (it rebuilds the moments of AdamW).
// Shapes: cosine (Loshchilov, Hutter, "SGDR", ICLR 2017, eq. 5, one cycle); warm-up, stable, decay
// (Hu et al., "MiniCPM", 2024, section 4, with a linear decay).
#pragma once

#include <cstdint>
#include <optional>

#include "base/ids.h"

namespace starling::optim {

enum class LrShape { kConstant, kCosine, kWarmupStableDecay };

struct LrConfig {
  LrShape shape = LrShape::kConstant;
  double peak = 0.0;
  double floor_ratio = 0.1;              // the rate never falls below floor_ratio * peak at the end
  double warmup_tokens = 0.0;            // linear from zero; zero: no warm-up
  double decay_start_tokens = 0.0;       // kWarmupStableDecay only
  double total_tokens = 0.0;             // where the decay ends; a peer may run past it
  std::uint64_t local_warmup_steps = 0;  // after joining; zero: none
};

// How far the swarm is: the decay follows all its tokens, the warm-up those that it has come past,
// fewer for a while where others are heard of late (peer/roles/schedule_clock.h). warmed <= all.
struct SwarmTokens {
  double all = 0;
  double warmed = 0;
};

// `local_steps_since_join`: steps this peer has done since it joined; zero for the first.
float learning_rate(const LrConfig& config, const SwarmTokens& tokens,
                    std::uint64_t local_steps_since_join);

// Every fragment is due once in steps_per_round steps, evenly spread. 1 <= fragments <=
// steps_per_round (validated with the configuration).
struct FragmentSchedule {
  std::uint32_t steps_per_round = 0;
  std::uint16_t fragments = 0;
};

// The fragment due after `steps_done` inner steps, if any: fragment p at p * H / P (rounded down)
// and every H steps from there.
std::optional<FragmentId> fragment_due(const FragmentSchedule& schedule, StepIndex steps_done);

// The steps of a round that takes as long as `schedule.steps_per_round` steps of the fastest peer,
// where this one does `share` steps in the time of one of its: "dynamic local steps" (Liu,
// Chhaparia and others, "Asynchronous Local-SGD Training for Language Modeling", 2024, section 5),
// with bounds because nobody is told which peer is the fastest: four steps, or one for each
// fragment, and four times the schedule's. share = 1 gives the schedule's own.
std::uint32_t dynamic_local_steps(const FragmentSchedule& schedule, double share);

// FragmentClock: fragment_due() where the length of a round changes on the way. After each change
// the rest of the way to the next fragment shrinks or grows with the round. At a constant length it
// names the same fragments after the same steps.
class FragmentClock {
 public:
  // As if all `steps_done` had been at the schedule's length.
  FragmentClock(const FragmentSchedule& schedule, std::uint64_t steps_done);

  // One more step, in a round of so many (at least `fragments`): the fragment that is due.
  std::optional<FragmentId> step(std::uint32_t steps_per_round);

 private:
  std::int64_t fragments_;
  std::int64_t steps_per_round_;
  // Progress towards the next due fragment, in steps times fragments. What one fragment came early
  // is subtracted, so that the next is due at the last step that does not take steps_ past the
  // round's length.
  std::int64_t steps_ = 0;
  std::int64_t next_ = 0;
};

}  // namespace starling::optim
