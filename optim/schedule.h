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

// `local_steps_since_join`: steps this peer has done since it joined; zero for the first.
float learning_rate(const LrConfig& config, double global_tokens,
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

}  // namespace starling::optim
