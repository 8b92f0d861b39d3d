// SimulatedGossip: pair_gossip in a simulated swarm: around every virtual peer the real mixer and
// the real protocol core, whose messages go over the virtual network as long as on the wire.
//
// What the mixer and the core do takes no virtual time, as beside a real trainer. Seals are
// stand-ins: also who is hostile in there (simulate_settings.h) keeps the protocol. Thread: the
// swarm's owner.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "gossip/core.h"
#include "gossip/record_seal.h"
#include "peer/roles/mixer.h"
#include "peer/roles/part_feed.h"
#include "peer/simulate/simulate_method.h"
#include "peer/simulate/simulate_swarm.h"

namespace starling::peer {

class SimulatedGossip final : public SimulatedMethod {
 public:
  explicit SimulatedGossip(SimulatedSwarm& swarm);
  ~SimulatedGossip() override;

  Status start(std::uint32_t peer, const CheckpointImage* joined) override;
  void computed(std::uint32_t peer) override;
  void stop(std::uint32_t peer, bool crashed) override;
  void complete(std::uint32_t peer, std::unique_ptr<CheckpointImage>& image) override;
  ExchangeCounts exchanges(std::uint32_t peer) const override;

  const Mixer& mixer(std::uint32_t peer) const;

 private:
  class Member;
  struct Mail {
    PeerId from;
    std::uint32_t to = 0;
    gossip::Message message;
    Bytes payload;
  };
  std::uint32_t keep(Mail mail);
  void deliver(std::uint32_t place);

  SimulatedSwarm& swarm_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<Mail> mail_;  // on its way, and free places
  std::vector<std::uint32_t> free_mail_;
};

}  // namespace starling::peer
