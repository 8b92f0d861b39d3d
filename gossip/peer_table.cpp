#include "gossip/peer_table.h"

#include <algorithm>

namespace starling::gossip {
namespace {

bool is_gone(Health health) { return health == Health::kDead || health == Health::kLeft; }

}  // namespace

bool supersedes(const PeerRecord& news, const PeerRecord& known) {
  if (news.key.incarnation != known.key.incarnation) {
    return news.key.incarnation > known.key.incarnation;
  }
  return news.health > known.health;
}

PeerTable::Change PeerTable::merge(Instant now, const PeerRecord& record) {
  Peer* known = find(record.key.id);
  if (known == nullptr) {
    if (rows_.size() >= rows_max_ && !make_room(now)) return Change::kRefused;
    Peer peer;
    peer.record = record;
    peer.last_heard = now;
    peer.health_since = now;
    peer.tell_left = tell_times();
    rows_.emplace(record.key.id, peer);
    return Change::kNew;
  }
  if (!supersedes(record, known->record)) return Change::kNone;
  const bool new_process = process_of(record) != process_of(known->record);
  const bool new_health = record.health != known->record.health;
  known->record = record;
  known->tell_left = tell_times();
  if (new_process || new_health) known->health_since = now;
  if (new_process) {
    known->welcomed = false;
    known->offers_seen = 0;
    known->unanswered_since.reset();
    known->greet_again = now;
    known->refused_until = now;
    known->declined_until = now;
    return Change::kProcess;
  }
  return new_health ? Change::kHealth : Change::kNone;
}

Peer* PeerTable::find(PeerId id) {
  const auto found = rows_.find(id);
  return found == rows_.end() ? nullptr : &found->second;
}

const Peer* PeerTable::find(PeerId id) const {
  const auto found = rows_.find(id);
  return found == rows_.end() ? nullptr : &found->second;
}

bool PeerTable::is_welcome(PeerId id) const {
  const Peer* peer = find(id);
  return peer != nullptr && peer->welcomed;
}

std::optional<PeerKey> PeerTable::process(PeerId id) const {
  const Peer* peer = find(id);
  if (peer == nullptr || !peer->welcomed || is_gone(peer->record.health)) return std::nullopt;
  return process_of(peer->record);
}

std::uint64_t PeerTable::count(Health health) const {
  return static_cast<std::uint64_t>(
      std::count_if(rows_.begin(), rows_.end(),
                    [health](const auto& item) { return item.second.record.health == health; }));
}

std::uint64_t PeerTable::partners() const {
  return static_cast<std::uint64_t>(std::count_if(rows_.begin(), rows_.end(), [](const auto& item) {
    return item.second.welcomed && item.second.record.health == Health::kAlive;
  }));
}

void PeerTable::fill(BoundedList<PeerRecord, kRecordsMax>& list, PeerId reader, Rng& rng) {
  std::vector<Peer*> others;
  others.reserve(rows_.size());
  for (auto& [id, peer] : rows_) {
    if (id != reader) others.push_back(&peer);
  }
  for (std::size_t i = others.size(); i > 1; --i) {
    std::swap(others[i - 1], others[static_cast<std::size_t>(rng.below(i))]);
  }
  std::stable_partition(others.begin(), others.end(),
                        [](const Peer* peer) { return peer->tell_left > 0; });
  const Peer* self = find(reader);
  if (self != nullptr && self->record.health != Health::kAlive) {
    if (!list.try_push(self->record)) return;
  }
  for (Peer* peer : others) {
    if (!list.try_push(peer->record)) return;
    if (peer->tell_left > 0) --peer->tell_left;
  }
}

void PeerTable::shift(Duration by) {
  for (auto& [id, peer] : rows_) {
    peer.last_heard += by;
    peer.health_since += by;
    if (peer.unanswered_since) *peer.unanswered_since += by;
  }
}

bool PeerTable::make_room(Instant now) {
  auto oldest = rows_.end();
  for (auto row = rows_.begin(); row != rows_.end(); ++row) {
    if (!is_gone(row->second.record.health)) continue;
    if (now - row->second.health_since < dead_kept_) continue;
    const bool older =
        oldest == rows_.end() || row->second.health_since < oldest->second.health_since;
    if (older) oldest = row;
  }
  if (oldest == rows_.end()) return false;
  rows_.erase(oldest);
  return true;
}

// Enough for a rumor to reach everybody with high probability: a few times log2 of the swarm.
std::uint8_t PeerTable::tell_times() const {
  std::uint8_t times = 6;
  for (std::size_t peers = rows_.size(); peers > 1; peers /= 2) times = std::uint8_t(times + 3);
  return times;
}

}  // namespace starling::gossip
