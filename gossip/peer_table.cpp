#include "gossip/peer_table.h"

#include <algorithm>

#include "base/assert.h"
#include "gossip/record_seal.h"

namespace starling::gossip {
namespace {

// Rows drawn to find one to give up.
constexpr int kVictimsDrawn = 8;
// What was never heard was heard this long ago.
constexpr Duration kLongAgo = std::chrono::hours(1);

}  // namespace

bool can_be_sent_to(const Peer& peer, Instant now) {
  return peer.record.dialable || now - peer.last_heard < kOwnLineKept;
}
bool is_out_of_reach(const Peer& peer, Instant now) {
  return !peer.record.dialable && now - peer.heard_directly >= kOwnLineKept;
}
Reach advertised_reach(const PeerRecord& record) {
  if (!listens(record.address)) return Reach::kUnspecified;
  const Reach reach = reach_of(host(record.address));
  return reach == Reach::kUnknown ? Reach::kThisNetwork : reach;
}
bool is_present(Health health) { return health == Health::kAlive || health == Health::kSuspect; }
bool is_gone(Health health) { return !is_present(health); }

bool outranks(const PeerRecord& one, const PeerRecord& other) {
  if (one.signature == other.signature) return false;
  return sealed_text(0, one) > sealed_text(0, other);
}

bool supersedes(const PeerRecord& news, const PeerRecord& known) {
  if (news.key.incarnation != known.key.incarnation) {
    return news.key.incarnation > known.key.incarnation;
  }
  if (news.health != known.health) return news.health > known.health;
  return outranks(news, known);
}

PeerTable::Change PeerTable::merge(Instant now, const PeerRecord& record, Rng& rng) {
  Peer* known = find(record.key.id);
  if (known == nullptr) {
    if (is_gone(record.health)) return Change::kRefused;
    // What it says itself has no age.
    const Instant alive = record.age_s == 0 ? now : alive_at(now, record);
    if (forgotten_.is_stale(process_of(record), alive)) return Change::kRefused;
    const bool sample = full();
    if (sample && !make_room(now, record, rng)) return Change::kRefused;
    const auto made = rows_.try_emplace(record.key.id).first;
    index_.emplace(record.key.id, made);
    Peer& row = made->second;
    row.record = record;
    row.record.age_s = 0;
    row.reach = advertised_reach(record);
    row.alive_at = alive_at(now, record);
    row.last_heard = now - kLongAgo;
    row.heard_directly = now - kLongAgo;
    row.introduced_at = now - kLongAgo;
    row.silent_at = now - kLongAgo;
    row.health_since = now;
    row.offers_seen = forgotten_.offers_seen(process_of(record));
    row.proved_at = now;  // or it is an old record: from now on it is to prove it
    row.place = static_cast<std::uint32_t>(round_.size());
    round_.push_back({&row, part_of(record.key.id)});
    count_in(row);
    toggle_in_digest(row);
    if (!sample) tell(row, News::kNewcomer);  // in a sample somebody is always new
    return Change::kNew;
  }
  note_sign(now, *known, record);
  if (!supersedes(record, known->record)) return Change::kNone;
  const bool new_process = process_of(record) != process_of(known->record);
  const bool new_health = record.health != known->record.health;
  count_out(*known);
  toggle_in_digest(*known);
  const bool renewed = record.key.incarnation > known->record.key.incarnation;
  if (renewed) known->proved_at = now;
  known->record = record;
  known->record.age_s = 0;
  known->reach = advertised_reach(record);
  count_in(*known);
  toggle_in_digest(*known);
  if (renewed || new_health) known->accusers.clear();
  tell(*known);
  // It denied what it was doubted for before: this suspicion is another one.
  const bool doubted_anew = renewed && record.health == Health::kSuspect;
  if (new_process || new_health || doubted_anew) known->health_since = now;
  if (new_process) {
    known->welcomed = false;
    known->met = false;
    known->offers_seen = 0;
    known->standing_at.reset();
    known->greet_again = now;
    known->refused_until = now;
    known->declined_until = now;
    return Change::kProcess;
  }
  return new_health ? Change::kHealth : Change::kNone;
}

Instant PeerTable::alive_at(Instant now, const PeerRecord& record) {
  return now - std::chrono::seconds(record.age_s) - kOnTheWay;
}

void PeerTable::note_sign(Instant now, Peer& known, const PeerRecord& record) {
  if (is_gone(record.health) || record.key.incarnation < known.record.key.incarnation) return;
  known.alive_at = std::max(known.alive_at, alive_at(now, record));
}

void PeerTable::count_in(const Peer& row) {
  ++counts_[static_cast<std::size_t>(row.record.health)];
  if (!is_present(row.record.health)) return;
  if (!row.record.dialable) ++undialable_;
  if (row.met_once) ++present_met_once_;
}

void PeerTable::count_out(const Peer& row) {
  --counts_[static_cast<std::size_t>(row.record.health)];
  if (!is_present(row.record.health)) return;
  if (!row.record.dialable) --undialable_;
  if (row.met_once) --present_met_once_;
}

void PeerTable::note_met(Peer& peer) {
  count_out(peer);
  peer.met = peer.met_once = true;
  count_in(peer);
}

Reach PeerTable::farthest() const {
  Reach reach{};
  for (const auto& [id, peer] : rows_)  // not of hearsay: anybody could invent a distant peer
    if (peer.met && is_present(peer.record.health)) reach = std::max(reach, peer.reach);
  return reach;
}

Peer* PeerTable::find(PeerId id) {
  const auto found = index_.find(id);
  return found == index_.end() ? nullptr : &found->second->second;
}

const Peer* PeerTable::find(PeerId id) const {
  const auto found = index_.find(id);
  return found == index_.end() ? nullptr : &found->second->second;
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

// --- the round: all rows in a vector, those visited before those to come ---

Peer& PeerTable::next_in_round(Rng& rng) {
  STARLING_ASSERT(!round_.empty());
  if (next_ >= round_.size()) next_ = 0;
  const std::size_t chosen = next_ + static_cast<std::size_t>(rng.below(round_.size() - next_));
  const Place place = round_[chosen];
  move_to(chosen, round_[next_]);
  move_to(next_++, place);
  return *place.row;
}

std::uint64_t PeerTable::partners() const {
  return static_cast<std::uint64_t>(std::count_if(rows_.begin(), rows_.end(), [](const auto& item) {
    return item.second.welcomed && item.second.record.health == Health::kAlive;
  }));
}

std::uint64_t PeerTable::partners_out_of_reach(Instant now) const {
  return static_cast<std::uint64_t>(std::count_if(rows_.begin(), rows_.end(), [&](const auto& row) {
    const Peer& peer = row.second;
    return peer.welcomed && peer.record.health == Health::kAlive && is_out_of_reach(peer, now) &&
           can_be_sent_to(peer, now);
  }));
}

Peer& PeerTable::draw(Rng& rng) {
  STARLING_ASSERT(!round_.empty());
  return *round_[static_cast<std::size_t>(rng.below(round_.size()))].row;
}

const Peer& PeerTable::draw(Rng& rng) const {
  STARLING_ASSERT(!round_.empty());
  return *round_[static_cast<std::size_t>(rng.below(round_.size()))].row;
}

void PeerTable::move_to(std::size_t place, const Place& from) {
  round_[place] = from;
  from.row->place = static_cast<std::uint32_t>(place);
}

void PeerTable::erase(Peer& row) {
  STARLING_ASSERT(!row.connected);
  STARLING_ASSERT(round_[row.place].row == &row);
  // Whatever sign of life others had before it was doubted here is none of a life after that.
  const bool doubted = row.record.health != Health::kAlive;
  forgotten_.remember(process_of(row.record), row.offers_seen, doubted,
                      doubted ? std::max(row.alive_at, row.health_since) : row.alive_at);
  std::size_t hole = row.place;
  if (hole < next_) {  // the last visited one moves up, so that none is visited twice or never
    move_to(hole, round_[next_ - 1]);
    hole = --next_;
  }
  // At the end of a round the last one has just moved up, and this was its place: not again.
  if (hole + 1 < round_.size()) move_to(hole, round_.back());
  round_.pop_back();
  count_out(row);
  toggle_in_digest(row);
  const auto found = index_.find(row.record.key.id);
  rows_.erase(found->second);
  index_.erase(found);
}

void PeerTable::shift(Duration by) {
  forgotten_.shift(by);
  for (auto& [id, peer] : rows_) {
    peer.last_heard += by;
    peer.heard_directly += by;
    peer.alive_at += by;
    peer.proved_at += by;
    peer.health_since += by;
    peer.silent_at += by;
    peer.relay_since += by;
  }
}

// --- who makes room ---

bool PeerTable::make_room(Instant now, const PeerRecord& record, Rng& rng) {
  if (now - alive_at(now, record) >= kStale) return false;
  Peer* victim = nullptr;
  for (int i = 0; i < kVictimsDrawn; ++i) {
    Peer& drawn = draw(rng);
    const bool gone = is_gone(drawn.record.health);
    const bool many_gone = rows_.size() - present() > rows_max_ / 4;
    const bool forgotten = gone && (many_gone || now - drawn.health_since >= dead_kept_);
    if (drawn.connected || (gone && !forgotten)) continue;
    if (victim == nullptr) victim = &drawn;
    if (!forgotten && now - drawn.alive_at < kStale) continue;
    victim = &drawn;
    break;
  }
  if (victim == nullptr) return false;
  if (victim->record.health == Health::kSuspect) given_up_ = victim->record.key.id;
  erase(*victim);
  return true;
}

void PeerTable::forget(PeerId id) {
  Peer* const peer = find(id);
  if (peer != nullptr && !peer->connected) erase(*peer);
}

void PeerTable::forget_old(Instant now, Rng& rng) {
  for (int i = 0; i < kVictimsDrawn && !round_.empty(); ++i) {
    Peer& peer = draw(rng);
    const bool old = is_gone(peer.record.health) && now - peer.health_since >= kGoneKept;
    if (old && !peer.connected) erase(peer);
  }
}

// Enough for a rumor to reach everybody with high probability: a few times log2 of the swarm.
std::uint8_t PeerTable::tell_times() const {
  std::uint8_t times = 6;
  for (std::size_t peers = rows_.size(); peers > 1; peers /= 2) ++times;
  return times;
}

}  // namespace starling::gossip
