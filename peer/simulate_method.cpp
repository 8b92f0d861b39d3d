#include "peer/simulate_method.h"

#include "peer/simulate_gossip.h"
#include "peer/simulate_local.h"
#include "peer/simulate_swarm.h"

namespace starling::peer {

Result<std::unique_ptr<SimulatedMethod>> make_simulated_method(SimulatedSwarm& swarm) {
  std::unique_ptr<SimulatedMethod> method;
  switch (swarm.config().outer.rule.method) {
    case optim::OuterMethod::kPairGossip: method = std::make_unique<SimulatedGossip>(swarm); break;
    case optim::OuterMethod::kLocal: method = std::make_unique<SimulatedLocal>(swarm); break;
  }
  return method;
}

std::uint32_t snapshot_slots(const PeerConfig& config) {
  return config.outer.rule.method == optim::OuterMethod::kPairGossip ? config.gossip.slots : 0;
}

}  // namespace starling::peer
