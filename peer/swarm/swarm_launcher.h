// `starling swarm`: a whole swarm on one machine. Prepares it (what all peers would fail at is an
// error before any starts), runs its peers as child processes (swarm_launches.h: the command of
// each; swarm_supervisor.h), and brings it to its end (swarm_finish.h). Blocking; errors are what
// stopped it, or that a peer failed.
#pragma once

#include <ostream>
#include <vector>

#include "base/result.h"
#include "peer/config/config.h"
#include "peer/swarm/swarm_launches.h"

namespace starling::peer {

// A swarm that can be started: its ports are chosen, its keys and its list are made.
struct PreparedSwarm {
  PeerConfig config;  // what its peers have in common
  SwarmFacts facts;
  std::vector<PeerLaunch> launches;
};
Result<PreparedSwarm> prepare_swarm(const SwarmOptions& options);

Status run_swarm(const SwarmOptions& options, std::ostream& out);

}  // namespace starling::peer
