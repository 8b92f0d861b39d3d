// SimulatedLocal: every peer of a simulated swarm trains alone: outer.method = "local". Nobody
// says a word; so that learning rates fall as they do beside it, every peer knows the tokens of
// all. Thread: the swarm's owner.
#pragma once

#include "peer/simulate/simulate_method.h"
#include "peer/simulate/simulate_swarm.h"

namespace starling::peer {

class SimulatedLocal final : public SimulatedMethod {
 public:
  explicit SimulatedLocal(SimulatedSwarm& swarm) : swarm_(swarm) {}

  Status start(std::uint32_t peer, const CheckpointImage*) override {
    begin_step(peer);
    return ok_status();
  }
  void computed(std::uint32_t peer) override {
    swarm_.update(peer);
    begin_step(peer);
  }
  void stop(std::uint32_t, bool) override {}
  void complete(std::uint32_t, std::unique_ptr<CheckpointImage>& image) override {
    image->slow = image->weights;
  }
  ExchangeCounts exchanges(std::uint32_t) const override { return {}; }

 private:
  void begin_step(std::uint32_t peer) {
    swarm_.peer(peer).learn_clock(static_cast<double>(swarm_.tokens_before_now()));
    swarm_.begin_step(peer);
  }
  SimulatedSwarm& swarm_;
};

}  // namespace starling::peer
