// SimulatedMethod: how the peers of a simulated swarm come together: who begins a step when, and
// what happens between them. The swarm owns time, network, peers and the measuring; a method owns
// what it adds to a peer, and calls the swarm. Thread: the swarm's owner; all calls are at the
// swarm's now().
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "peer/config/config.h"
#include "peer/files/checkpoint_image.h"
#include "peer/states/stripe_table.h"

namespace starling::peer {

class SimulatedSwarm;

// Of one peer, over its life.
struct ExchangeCounts {
  std::uint64_t completed = 0, declined = 0, failed = 0;
  std::uint64_t begun = 0;   // of those completed, by this peer; what of the others is not known
  double begun_seconds = 0;  // that those took, together
  double clipped = 0;        // summed over those completed: 1 - the smallest clip factor of each
  std::uint64_t blocks = 0, blocks_skipped = 0;  // of the stripes that came in
};

class SimulatedMethod {
 public:
  SimulatedMethod() = default;
  SimulatedMethod(const SimulatedMethod&) = delete;
  SimulatedMethod& operator=(const SimulatedMethod&) = delete;
  virtual ~SimulatedMethod() = default;

  // The peer is there from now on, with the weights that its trainer has. `joined`: what it has
  // fetched, all of which is already in its trainer; null: it starts anew.
  virtual Status start(std::uint32_t peer, const CheckpointImage* joined) = 0;
  // The step that it began is over and its gradients are there; it is for the method to have them
  // used, and to begin the next one.
  virtual void computed(std::uint32_t peer) = 0;
  // It is gone. `crashed`: without a word.
  virtual void stop(std::uint32_t peer, bool crashed) = 0;
  // Puts slow weights and momentum into an image that its trainer has filled.
  virtual void complete(std::uint32_t peer, std::unique_ptr<CheckpointImage>& image) = 0;

  virtual ExchangeCounts exchanges(std::uint32_t peer) const = 0;

  // The run's tokens are trained: no step begins any more, and those under way are given up. What
  // is between peers then still arrives, and is taken: the last round counts as the others do.
  virtual bool finish() { return false; }        // whether weights change at once
  virtual bool settled() const { return true; }  // nothing is between them that would be taken

  // The model that the method makes, where that is not the mean of its peers; false: it is.
  virtual bool own_model(std::span<float> /*whole*/) const { return false; }
};

// That of config.outer.rule.method. `swarm` outlives it.
Result<std::unique_ptr<SimulatedMethod>> make_simulated_method(SimulatedSwarm& swarm);
// Buffers of each kind that a peer of it needs for its trainer's snapshots; 0: it takes none.
std::uint32_t snapshot_slots(const PeerConfig& config, const StripeTable& stripes);

}  // namespace starling::peer
