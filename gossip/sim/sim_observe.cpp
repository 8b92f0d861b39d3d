// The part of SimNetwork that looks: is the swarm whole, is it at rest, do the books balance.
#include <algorithm>
#include <limits>

#include "gossip/sim/sim_network.h"

namespace starling::gossip {

std::string SimNetwork::disagreement_about_members() const {
  for (const std::uint32_t peer : live()) {
    // Both in the order of ids.
    const std::vector<PeerRecord> records = core(peer).peers();
    auto next = records.begin();
    for (std::uint32_t other = 0; other < options_.peers; ++other) {
      if (other == peer) continue;
      const PeerId id = sim_peer_id(other);
      while (next != records.end() && next->key.id < id) ++next;
      const bool known = next != records.end() && next->key.id == id;
      const bool alive = known && next->health == Health::kAlive &&
                         process_of(*next).incarnation == processes_[other].life;
      const bool present = member(other) && processes_[other].fate == Fate::kUp;
      const bool doubted = known && next->health == Health::kSuspect;
      if (present ? !alive : (alive || doubted)) {
        return "peer " + std::to_string(peer) + " is wrong about peer " + std::to_string(other);
      }
    }
  }
  return {};
}

bool SimNetwork::membership_agrees() const { return disagreement_about_members().empty(); }

bool SimNetwork::everybody_mixed() const {
  if (live().size() < 2) return true;
  for (const std::uint32_t peer : live()) {
    if (processes_[peer].completed_since_heal == 0) return false;
  }
  return true;
}

bool SimNetwork::settled() const {
  for (const std::uint32_t peer : live()) {
    const Process& process = processes_[peer];
    if (process.core->exchanges_open() != 0 || process.fetching) return false;
    if (process.core->stripes_unsettled() != 0) return false;
    if (!process.mixer->idle() || process.mixer->deltas_held() != 0) return false;
  }
  return true;
}

std::string SimNetwork::unsettled() const {
  std::string text =
      disagreement_about_members() + "; token clocks differ by " + std::to_string(token_spread());
  for (const std::uint32_t peer : live()) {
    const Process& process = processes_[peer];
    const bool rests = process.core->exchanges_open() == 0 &&
                       process.core->stripes_unsettled() == 0 && process.mixer->deltas_held() == 0;
    if (rests && process.completed_since_heal > 0) continue;
    text += "; peer " + std::to_string(peer) + ": open " +
            std::to_string(process.core->exchanges_open()) + ", unsettled " +
            std::to_string(process.core->stripes_unsettled()) + ", deltas held " +
            std::to_string(process.mixer->deltas_held()) + ", mixed " +
            std::to_string(process.completed_since_heal) +
            (process.fetching ? ", still fetches a state" : "");
  }
  return text;
}

void SimNetwork::audit() {
  const std::vector<std::uint32_t> peers = live();
  std::vector<const SimMixer*> mixers;
  for (const std::uint32_t peer : peers) {
    mixers.push_back(&*processes_[peer].mixer);
    audit_.check_tokens(now_, peer, core(peer).token_map());
  }
  const ExceptionalMass mass = audit_.close(now_, peers, mixers);
  stats_[SimCount::kPartnerGone] = mass.partner_gone;
  stats_[SimCount::kRolledBack] = mass.rolled_back;
  stats_[SimCount::kUnequalPairs] = mass.unequal;
  stats_[SimCount::kOrphans] = mass.orphaned;
  stats_[SimCount::kHostilePairs] = mass.hostile;
}

Duration SimNetwork::longest_burial() const {
  Duration longest = longest_burial_;
  for (const auto& [pair, since] : buried_) longest = std::max(longest, now_ - since);
  return longest;
}

double SimNetwork::token_spread() const {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const std::uint32_t peer : live()) {
    const double tokens = core(peer).swarm_tokens(local_now(processes_[peer]));
    least = std::min(least, tokens);
    most = std::max(most, tokens);
  }
  return most > 0 ? (most - least) / most : 0;
}

double SimNetwork::token_excess() const {
  double trained = 0;
  for (std::uint32_t peer = 0; peer < options_.peers; ++peer) {
    const bool counts = member(peer) && !processes_[peer].hostile;
    if (counts) trained += static_cast<double>(audit_.tokens_trained(peer));
  }
  double most = 0;
  for (const std::uint32_t peer : live()) {
    if (processes_[peer].hostile) continue;
    most = std::max(most, core(peer).swarm_tokens(local_now(processes_[peer])));
  }
  return trained > 0 ? most / trained - 1 : 0;
}

double SimNetwork::disagreement() const {
  const std::vector<std::uint32_t> peers = live();
  double sum = 0;
  for (std::size_t stripe = 0; stripe < index_.size(); ++stripe) {
    for (std::size_t i = 0; i < StripeValues{}.size(); ++i) {
      double mean = 0;
      for (const std::uint32_t peer : peers) {
        mean += static_cast<double>(processes_[peer].mixer->values()[stripe][i]);
      }
      mean /= static_cast<double>(peers.size());
      for (const std::uint32_t peer : peers) {
        const double distance =
            static_cast<double>(processes_[peer].mixer->values()[stripe][i]) - mean;
        sum += distance * distance;
      }
    }
  }
  return sum;
}

}  // namespace starling::gossip
