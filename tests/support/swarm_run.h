// A whole simulated run: faults, healing, liveness, rest, audit. Used by the swarm tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gossip/sim/sim_network.h"

namespace starling::gossip {

struct SwarmRun {
  SimStats stats;
  std::vector<std::string> failures;  // empty: all promises were kept
  std::uint64_t trace = 0;
  Duration whole_after{};    // from healing until views are complete and everybody mixed
  double token_spread = 0;   // then, or when they agree: how far apart the token clocks are
  double token_excess = 0;   // and how far the furthest is ahead of the truth
  Duration settled_after{};  // from closing until nothing was in doubt
};

SwarmRun run_swarm(const SimOptions& options);

// The value of an environment variable as a number, or `otherwise`.
std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise);

}  // namespace starling::gossip
