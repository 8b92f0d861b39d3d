// The end of a swarm on one machine: the checkpoints of the peers that ended well are averaged and
// the average is measured, what each peer did is printed, and a sample of the average if one is
// wanted. The average of an earlier end is kept under another name. Blocking.
#pragma once

#include <ostream>

#include "base/result.h"
#include "peer/config/config.h"
#include "peer/swarm/swarm_launches.h"
#include "peer/swarm/swarm_supervisor.h"

namespace starling::peer {

// `config`: what the peers have in common. An error if there is no average, or no sample of it;
// what the peers did is printed all the same.
Status finish_swarm(const SwarmOptions& options, const PeerConfig& config, const SwarmFacts& facts,
                    const SwarmSupervisor& swarm, std::ostream& out);

}  // namespace starling::peer
