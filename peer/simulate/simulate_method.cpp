#include "peer/simulate/simulate_method.h"

#include <string>
#include <utility>

#include "peer/roles/pools.h"
#include "peer/simulate/simulate_exchange.h"
#include "peer/simulate/simulate_gossip.h"
#include "peer/simulate/simulate_local.h"
#include "peer/simulate/simulate_report.h"
#include "peer/simulate/simulate_swarm.h"

namespace starling::peer {

Result<std::unique_ptr<SimulatedMethod>> make_simulated_method(SimulatedSwarm& swarm) {
  const optim::OuterConfig& config = swarm.config().outer.rule;
  const bool is_pair_gossip = config.method == optim::OuterMethod::kPairGossip;
  if (!is_pair_gossip && swarm.config().simulate.lost_halves > 0) {
    return Error(ErrorCode::kInvalidConfig,
                 "simulate.lost_halves is for pair-gossip: leave it out with outer.method = \"" +
                     std::string(method_name(config.method)) + "\"");
  }
  std::unique_ptr<SimulatedMethod> method;
  if (is_pair_gossip) {
    method = std::make_unique<SimulatedGossip>(swarm);
  } else if (config.method == optim::OuterMethod::kLocal) {
    method = std::make_unique<SimulatedLocal>(swarm);
  } else {
    auto exchange = optim::make_outer_exchange(config);
    if (!exchange.ok()) return std::move(exchange).error().with_context("outer");
    method = std::make_unique<SimulatedExchange>(swarm, std::move(exchange).value());
  }
  return method;
}

std::uint32_t snapshot_slots(const PeerConfig& config, const StripeTable& stripes) {
  const bool takes = config.outer.rule.method == optim::OuterMethod::kPairGossip;
  return takes ? slot_count(config, stripes) : 0;
}

}  // namespace starling::peer
