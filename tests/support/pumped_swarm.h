// PumpedSwarm: several whole peers (real Trainer, Mixer and protocol Core on the CPU) pumped in
// turn on one thread in virtual time, joined by an in-memory transport. No sockets, no threads, no
// real clock in anything that decides: the same seed gives the same weights, bit for bit.
//
// A peer's step takes `step_time` of virtual time (times its slowness), a message `latency` or
// more; between two peers the messages of a lane keep their order.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <tuple>
#include <vector>

#include "base/rng.h"
#include "gossip/core.h"
#include "peer/machine/backend.h"
#include "peer/roles/mixer.h"
#include "peer/roles/trainer.h"

namespace starling::testing {

struct PumpedOptions {
  std::uint32_t peers = 4;
  std::uint64_t seed = 1;
  std::uint64_t steps = 100;  // of every peer
  Duration step_time = std::chrono::milliseconds(100);
  Duration latency = std::chrono::milliseconds(20);
  double loss_probability = 0;  // of every message, either lane
  peer::TrainerConfig trainer;
  peer::MixerConfig mixer;
  optim::OuterConfig outer;
  gossip::GossipConfig gossip;
  std::uint16_t fragments = 2;
  std::uint32_t slots = 64;                   // of either pool
  std::function<void()> before_pump = [] {};  // around every call of Trainer::pump()
  std::function<void()> after_pump = [] {};
  std::function<peer::Backend()> backend = [] {  // of every peer
    return peer::make_backend("cpu", {.threads = 1}).value();
  };
  bool different_starts = false;  // every peer draws its own initial weights
  std::filesystem::path states;   // where checkpoints for newcomers and fetched states lie
  // May change a message on its way; false: it is lost.
  std::function<bool(std::uint32_t from, gossip::Message&, std::vector<std::byte>& payload)>
      tamper = [](std::uint32_t, gossip::Message&, std::vector<std::byte>&) { return true; };
  // May change what a donor then vouches for.
  std::function<void(std::uint32_t from, peer::CheckpointImage&)> forge_state =
      [](std::uint32_t, peer::CheckpointImage&) {};
};

// Four peers with a model of a few thousand parameters and impatient timeouts.
PumpedOptions small_swarm(std::uint64_t seed);

// What a newcomer has told.
struct PumpedJoin {
  std::vector<gossip::JoinEnded> ended;
  std::vector<gossip::JoinEvent> events;
};

class PumpedPeer;

class PumpedSwarm {
 public:
  explicit PumpedSwarm(const PumpedOptions& options);
  ~PumpedSwarm();

  // Until every trainer has spent its budget; then `closing` more virtual time in which fragments
  // are still offered, and as much again in which what is open is settled.
  void run(Duration closing);

  std::uint32_t size() const noexcept;
  peer::Trainer& trainer(std::uint32_t index);
  peer::Mixer& mixer(std::uint32_t index);
  gossip::Core& core(std::uint32_t index);
  const peer::MixerMetrics& mixer_metrics(std::uint32_t index) const;
  const std::vector<gossip::Rejected>& rejected(std::uint32_t index) const;
  const std::vector<gossip::Muted>& muted(std::uint32_t index) const;
  std::uint32_t slots_used(std::uint32_t index) const;  // of both pools, now
  // Stops a peer for ever, or starts it again from its newest image with a higher incarnation.
  void kill(std::uint32_t index);
  void restart(std::uint32_t index);
  void pump_until(std::uint64_t steps_of_first);
  void pump_until(const std::function<bool()>& done);
  // A fresh peer that fetches the others' state before its first step; it trains `steps`. Returns
  // its index.
  std::uint32_t join(std::uint64_t steps);
  const PumpedJoin& joined(std::uint32_t index) const;
  void pump_for(Duration duration);
  // False: messages do not get from one to the other.
  std::function<bool(std::uint32_t from, std::uint32_t to)> reaches;
  // As last told to the core.
  const std::map<FragmentId, gossip::FragmentState>& fragment_states(std::uint32_t index) const;

  Instant now() const noexcept { return now_; }

 private:
  friend class PumpedPeer;
  struct Mail {
    Instant due;
    std::uint64_t sequence = 0;
    std::uint32_t from = 0, to = 0;
    gossip::Message message;
    std::vector<std::byte> payload;
  };
  void post(std::uint32_t from, std::uint32_t to, const gossip::Message& message,
            std::span<const std::byte> payload);
  void deliver();
  bool advance();

  PumpedOptions options_;
  Rng rng_;
  Instant now_{};
  bool settling_ = false;
  std::uint64_t sequence_ = 0;
  std::vector<Mail> mail_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, bool>, Instant> last_due_;  // of a lane
  std::vector<std::unique_ptr<PumpedPeer>> peers_;
};

}  // namespace starling::testing
