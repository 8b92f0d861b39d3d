// Membership, second half: what rides on pings, and what happens on every tick.
#include <algorithm>
#include <vector>

#include "gossip/membership.h"

namespace starling::gossip {
namespace {

// Peers with unanswered pings are asked again each tick, but only so many: half a swarm behind a
// partition must not cost half a swarm of pings.
constexpr std::size_t kProbesMax = 8;
// A peer known by rumor only is doubted later: perhaps just we cannot reach it.
constexpr int kRumorPatience = 3;

bool is_present(Health health) { return health == Health::kAlive || health == Health::kSuspect; }

}  // namespace

void Membership::on_deadline(Instant now) {
  if (now < next_tick_) return;
  next_tick_ = now + context_.config.ping_interval;
  doubt(now);
  ping_some(now);
  greet_some(now);
  probe_some(now);
}

void Membership::read(Instant now, const BoundedList<PeerRecord, kRecordsMax>& records,
                      const BoundedList<TokenEntry, kTokensMax>& tokens) {
  for (const PeerRecord& record : records) learn(now, record);
  for (const TokenEntry& entry : tokens) {
    if (!context_.tokens.merge(now, entry)) continue;
  }
  weigh();
}

void Membership::fill(PeerId reader, BoundedList<PeerRecord, kRecordsMax>& records,
                      BoundedList<TokenEntry, kTokensMax>& tokens) {
  STARLING_ASSERT(records.try_push(self_));
  context_.peers.fill(records, reader, context_.rng);
  context_.tokens.fill(tokens, context_.rng);
}

// A rumor about somebody.
void Membership::learn(Instant now, const PeerRecord& record) {
  if (record.key.id == PeerId{}) return;
  if (record.key.id == context_.self.id) {
    deny(record);
    return;
  }
  const Peer* before = context_.peers.find(record.key.id);
  const bool was_present = before != nullptr && is_present(before->record.health);
  const PeerRecord known = before != nullptr ? before->record : record;
  const PeerTable::Change change = context_.peers.merge(now, record);
  Peer* peer = context_.peers.find(record.key.id);
  if (peer == nullptr) return;
  const bool moved =
      peer->record.address != known.address || peer->record.dialable != known.dialable;
  if (moved && peer->welcomed) connect(*peer);
  if (change == PeerTable::Change::kNone) return;
  if (change != PeerTable::Change::kNew) note_change(now, change, *peer);
  const bool present = is_present(record.health);
  if (present && record.dialable && !peer->welcomed && (!was_present || now >= peer->greet_again))
    greet(now, *peer);
}

void Membership::deny(const PeerRecord& rumor) {
  const bool about_us = rumor.key.incarnation >> kRefutationBits == context_.self.incarnation;
  if (!about_us || rumor.health == Health::kAlive) return;
  if (rumor.key.incarnation < self_.key.incarnation) return;
  static_cast<void>(renew(refutations_of(rumor) + 1));
}

// Raises the own record to so many refutations. False: there are no more.
bool Membership::renew(std::uint64_t refutations) {
  if (refutations >> kRefutationBits != 0) return false;
  self_.key = record_key(context_.self, refutations);
  return true;
}

// The table has taken a record that changes what the rest of the core should think of a peer.
void Membership::note_change(Instant now, PeerTable::Change change, Peer& peer) {
  const PeerId id = peer.record.key.id;
  if (change == PeerTable::Change::kProcess) {
    context_.emit(Disconnect{id});
    lost_.push_back(id);
  }
  const bool gone = !is_present(peer.record.health);
  if (gone && peer.welcomed) {
    peer.welcomed = false;
    peer.greet_again = now + context_.config.redial_interval;
    context_.emit(Disconnect{id});
    lost_.push_back(id);
  }
  if (gone) peer.unanswered_since.reset();
  context_.emit(PeerChanged{peer.record});
}

void Membership::set_health(Instant now, Peer& peer, Health health) {
  PeerRecord record = peer.record;
  record.health = health;
  const PeerTable::Change change = context_.peers.merge(now, record);
  if (change != PeerTable::Change::kNone) note_change(now, change, peer);
}

// Is this peer far behind the others? Answered once, by the first news that tells of them.
void Membership::weigh() {
  if (context_.newcomer.decided()) return;
  double sum = 0;
  double peers = 0;
  for (const auto& [id, peer] : context_.peers.rows()) {
    const auto tokens = static_cast<double>(context_.tokens.total_of(id));
    if (!is_present(peer.record.health) || tokens <= 0) continue;
    sum += tokens;
    peers += 1;
  }
  if (peers == 0 && context_.awaits_trained) return;  // only newcomers so far
  const auto own = static_cast<double>(context_.tokens.in_own_weights());
  const auto threshold = static_cast<double>(context_.config.newcomer_tokens);
  context_.newcomer.decide(own, peers > 0 ? sum / peers : 0, threshold);
}

void Membership::ping(Instant now, Peer& peer) {
  Ping message;
  message.nonce = next_nonce_++;
  fill(peer.record.key.id, message.records, message.tokens);
  context_.send(peer.record.key.id, message);
  context_.paces.on_asked(now, peer.record.key.id, message.nonce);
  if (!peer.unanswered_since) peer.unanswered_since = now;
}

void Membership::greet(Instant now, Peer& peer) {
  if (now < peer.refused_until) return;
  peer.greet_again = now + context_.config.redial_interval;
  context_.emit(Greet{peer.record.address, hello()});
  if (!peer.unanswered_since && is_present(peer.record.health)) peer.unanswered_since = now;
}

void Membership::doubt(Instant now) {
  const GossipConfig& config = context_.config;
  for (auto& [id, peer] : context_.peers.rows()) {
    if (!peer.unanswered_since || now < peer.refused_until) continue;
    const bool present = is_present(peer.record.health);
    if (!present && peer.welcomed && now - *peer.unanswered_since >= config.suspect_after) {
      // It came back from the dead, was told so, and fell silent again before it denied it.
      peer.welcomed = false;
      context_.emit(Disconnect{id});
      continue;
    }
    const Duration patience =
        peer.welcomed ? config.suspect_after : config.suspect_after * kRumorPatience;
    if (peer.record.health == Health::kAlive && now - *peer.unanswered_since >= patience) {
      set_health(now, peer, Health::kSuspect);
      continue;
    }
    if (peer.record.health != Health::kSuspect) continue;
    const Instant since = std::max(peer.health_since, *peer.unanswered_since);
    if (now - since >= config.dead_after) set_health(now, peer, Health::kDead);
  }
}

void Membership::ping_some(Instant now) {
  std::vector<Peer*> quiet;
  std::vector<Peer*> others;
  for (auto& [id, peer] : context_.peers.rows()) {
    if (!peer.welcomed || peer.record.health == Health::kLeft) continue;
    const bool doubted = peer.unanswered_since || peer.record.health != Health::kAlive;
    (doubted ? quiet : others).push_back(&peer);
  }
  if (!others.empty()) {
    ping(now, *others[static_cast<std::size_t>(context_.rng.below(others.size()))]);
  }
  for (std::size_t i = 0; i < std::min(quiet.size(), kProbesMax); ++i) {
    std::swap(quiet[i], quiet[i + static_cast<std::size_t>(context_.rng.below(quiet.size() - i))]);
    ping(now, *quiet[i]);
  }
}

void Membership::greet_some(Instant now) {
  const Duration redial = context_.config.redial_interval;
  for (Seed& seed : seeds_) {
    if (context_.peers.process(seed.id) || now < seed.greet_again || now < seed.refused_until) {
      continue;
    }
    // Uneven, so that peers that lost a seed together do not come back to it together.
    const double spread = 0.75 + 0.5 * context_.rng.unit();
    seed.greet_again = now + from_seconds(to_seconds(redial) * spread);
    context_.emit(Greet{seed.address, hello()});
  }
  std::vector<Peer*> dead;
  for (auto& [id, peer] : context_.peers.rows()) {
    if (peer.welcomed || peer.record.health == Health::kLeft) continue;
    if (!peer.record.dialable) continue;  // it will call
    if (now < peer.greet_again || now < peer.refused_until) continue;
    if (peer.record.health == Health::kDead) {
      dead.push_back(&peer);
    } else {
      greet(now, peer);
    }
  }
  if (dead.empty() || now < next_redial_) return;
  next_redial_ = now + redial;
  greet(now, *dead[static_cast<std::size_t>(context_.rng.below(dead.size()))]);
}

// Tells a random partner that was never dialled whether it can be.
void Membership::probe_some(Instant now) {
  if (now < next_probe_) return;
  next_probe_ = now + kProbeEvery;
  std::vector<Peer*> unsure;
  for (auto& [id, peer] : context_.peers.rows()) {
    if (peer.welcomed && !peer.record.dialable && listens(peer.record.address)) {
      unsure.push_back(&peer);
    }
  }
  if (unsure.empty()) return;
  connect(*unsure[static_cast<std::size_t>(context_.rng.below(unsure.size()))]);
}

}  // namespace starling::gossip
