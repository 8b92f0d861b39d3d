// A whole simulated run: faults, healing, liveness, rest, audit. Used by the swarm tests.
#pragma once

#include <csignal>
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

// The same where each peer keeps a sample of so many others.
SimOptions with_samples(SimOptions options, std::uint32_t peers_max);

// While it lives, an assertion that fails, as of a table beyond its limit, prints how to run that
// again before it ends the process. One at a time.
class AbortTeller {
 public:
  explicit AbortTeller(const std::string& replay);
  ~AbortTeller();
  AbortTeller(const AbortTeller&) = delete;
  AbortTeller& operator=(const AbortTeller&) = delete;

 private:
  struct sigaction before_ {};
};

// The value of an environment variable as a number, or `otherwise`.
std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise);

}  // namespace starling::gossip
