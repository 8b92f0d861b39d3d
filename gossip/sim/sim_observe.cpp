// The part of SimNetwork that looks: is the swarm whole, is it at rest, do the books balance.
#include <algorithm>
#include <limits>

#include "gossip/sim/sim_network.h"

namespace starling::gossip {
namespace {

// How many hear of each other, beginning with that one; whoever is known hears of who knows it.
std::size_t reached(std::vector<std::vector<std::uint32_t>> knows, std::uint32_t from) {
  for (std::uint32_t peer = 0; peer < knows.size(); ++peer) {
    const std::vector<std::uint32_t> known = knows[peer];
    for (const std::uint32_t other : known) knows[other].push_back(peer);
  }
  std::vector<bool> seen(knows.size());
  std::vector<std::uint32_t> next{from};
  seen[from] = true;
  std::size_t count = 0;
  for (; !next.empty(); ++count) {
    const std::uint32_t peer = next.back();
    next.pop_back();
    for (const std::uint32_t other : knows[peer]) {
      if (!seen[other]) next.push_back(other);
      seen[other] = true;
    }
  }
  return count;
}

}  // namespace

std::string SimNetwork::wrong_about(std::uint32_t peer, std::uint32_t other,
                                    const PeerRecord& record) const {
  const bool lives = member(other) && processes_[other].fate == Fate::kUp &&
                     process_of(record).incarnation == processes_[other].life;
  const bool alive = record.health == Health::kAlive, doubted = record.health == Health::kSuspect;
  const bool there = member(other) && processes_[other].fate == Fate::kUp;
  if (there ? alive && lives : !alive && !doubted) return {};
  return "peer " + std::to_string(peer) + " is wrong about peer " + std::to_string(other) +
         (there ? ", which is there: " : ", which is not: ") +
         std::string(to_string(record.health));
}

std::string SimNetwork::disagreement_about_members() const {
  if (options_.peers > options_.config.peers_max) return disagreement_of_samples();
  for (const std::uint32_t peer : live()) {
    // Both in the order of ids.
    const std::vector<PeerRecord> records = core(peer).peers();
    auto next = records.begin();
    for (std::uint32_t other = 0; other < options_.peers; ++other) {
      if (other == peer) continue;
      const PeerId id = sim_peer_id(other);
      while (next != records.end() && next->key.id < id) ++next;
      const bool known = next != records.end() && next->key.id == id;
      if (!known && !(member(other) && processes_[other].fate == Fate::kUp)) continue;
      if (!known) return "peer " + std::to_string(peer) + " misses peer " + std::to_string(other);
      if (const std::string wrong = wrong_about(peer, other, *next); !wrong.empty()) return wrong;
    }
  }
  return {};
}

// Who keeps a sample need not know everybody. But few rows are wrong, half of each table, or all
// there are, are peers that are there, and through those that they know all hear of each other.
std::string SimNetwork::disagreement_of_samples() const {
  constexpr std::size_t kWrongOf = 10;  // rows, one
  const std::vector<std::uint32_t> there = live();
  const std::size_t others = there.size() - std::min<std::size_t>(there.size(), 1);
  const std::size_t least = std::min<std::size_t>(options_.config.peers_max / 2, others);
  if (there.empty()) return {};
  std::vector<std::vector<std::uint32_t>> knows(options_.peers);
  std::size_t rows = 0, wrong = 0;
  std::string example;
  for (const std::uint32_t peer : there) {
    for (const PeerRecord& record : core(peer).peers()) {
      if (record.key.id.value - 1 >= options_.peers) continue;  // invented
      const auto other = static_cast<std::uint32_t>(record.key.id.value - 1);
      ++rows;
      const std::string error = wrong_about(peer, other, record);
      if (!error.empty()) example = error;
      if (!error.empty()) ++wrong;
      if (error.empty() && record.health == Health::kAlive) knows[peer].push_back(other);
    }
    if (knows[peer].size() < least) {
      return "peer " + std::to_string(peer) + " knows " + std::to_string(knows[peer].size());
    }
  }
  if (kWrongOf * wrong > rows) {
    return std::to_string(wrong) + " of " + std::to_string(rows) + " rows are wrong: " + example;
  }
  if (reached(knows, there.front()) < there.size()) return "the swarm is in parts";
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
