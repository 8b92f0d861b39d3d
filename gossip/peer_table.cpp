#include "gossip/peer_table.h"

#include <algorithm>
#include <limits>

#include "base/assert.h"
#include "gossip/record_seal.h"

namespace starling::gossip {
namespace {

// Rows drawn to find one to give up.
constexpr int kVictimsDrawn = 8;
// Ages are looked for in so many rows.
constexpr std::size_t kAgeDraws = 4 * kAgesMax;
// Room in a message that news may not take: a sample lives on random records.
constexpr std::size_t kRandomLeast = 4;
// What was never heard was heard this long ago.
constexpr Duration kLongAgo = std::chrono::hours(1);

// The way here counted as this long. Whoever passes on a record must make it older, never younger:
// else it would go around for ever and stay as young as it is.
constexpr Duration kOnTheWay = std::chrono::seconds(1);

Instant known_alive_at(Instant now, const PeerRecord& record) {
  return now - std::chrono::seconds(record.age_s) - kOnTheWay;
}

std::uint16_t age_of(const Peer& peer, Instant now) {
  const auto age = std::chrono::ceil<std::chrono::seconds>(now - peer.alive_at).count();
  constexpr std::int64_t kMost = std::numeric_limits<std::uint16_t>::max();
  return static_cast<std::uint16_t>(std::clamp<std::int64_t>(age, 0, kMost));
}

bool holds(const PeerTable::RecordList& list, PeerId id) {
  return std::any_of(list.begin(), list.end(),
                     [id](const PeerRecord& record) { return record.key.id == id; });
}

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
    const bool sample = full();
    if (sample && !make_room(now, record, rng)) return Change::kRefused;
    const auto made = rows_.try_emplace(record.key.id).first;
    index_.emplace(record.key.id, made);
    Peer& row = made->second;
    row.record = record;
    row.record.age_s = 0;
    row.reach = advertised_reach(record);
    row.alive_at = known_alive_at(now, record);
    row.last_heard = now - kLongAgo;
    row.heard_directly = now - kLongAgo;
    row.introduced_at = now - kLongAgo;
    row.silent_at = now - kLongAgo;
    row.health_since = now;
    row.proved_at = now;  // or it is an old record: from now on it is to prove it
    row.place = static_cast<std::uint32_t>(round_.size());
    round_.push_back({&row, part_of(record.key.id)});
    count_in(record);
    toggle_in_digest(row);
    if (!sample) tell(row, News::kNewcomer);  // in a sample somebody is always new
    return Change::kNew;
  }
  note_sign(now, *known, record);
  if (!supersedes(record, known->record)) return Change::kNone;
  const bool new_process = process_of(record) != process_of(known->record);
  const bool new_health = record.health != known->record.health;
  count_out(known->record);
  count_in(record);
  toggle_in_digest(*known);
  const bool renewed = record.key.incarnation > known->record.key.incarnation;
  if (renewed) known->proved_at = now;
  known->record = record;
  known->record.age_s = 0;
  known->reach = advertised_reach(record);
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

void PeerTable::note_sign(Instant now, Peer& known, const PeerRecord& record) {
  if (is_gone(record.health) || record.key.incarnation < known.record.key.incarnation) return;
  known.alive_at = std::max(known.alive_at, known_alive_at(now, record));
}

void PeerTable::count_in(const PeerRecord& record) {
  ++counts_[static_cast<std::size_t>(record.health)];
  if (is_present(record.health) && !record.dialable) ++undialable_;
}

void PeerTable::count_out(const PeerRecord& record) {
  --counts_[static_cast<std::size_t>(record.health)];
  if (is_present(record.health) && !record.dialable) --undialable_;
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
  std::size_t hole = row.place;
  if (hole < next_) {  // the last visited one moves up, so that none is visited twice or never
    move_to(hole, round_[next_ - 1]);
    hole = --next_;
  }
  move_to(hole, round_.back());
  round_.pop_back();
  count_out(row.record);
  toggle_in_digest(row);
  const auto found = index_.find(row.record.key.id);
  rows_.erase(found->second);
  index_.erase(found);
}

// --- what is told ---

PeerRecord PeerTable::told(const Peer& peer, Instant now) {
  PeerRecord record = peer.record;
  record.age_s = age_of(peer, now);
  return record;
}

std::size_t PeerTable::part_of(PeerId id) { return mix64(id.value) % kBucketsMax; }

// Without refutations: they are news of the moment and end with it. But how a peer can be reached
// is for all to know.
std::uint64_t PeerTable::digest_of(const PeerRecord& record) {
  std::uint64_t state = process_of(record).incarnation << 2 | (record.dialable ? 1U : 0U) |
                        (record.forwards ? 2U : 0U);
  for (const PeerId relay : record.relays) state = mix64(state ^ relay.value);
  for (const std::uint8_t byte : record.extension) state = mix64(state ^ byte);
  return mix64(mix64(record.key.id.value) ^ state);
}

void PeerTable::tell(Peer& peer, News kind) {
  const bool listed = peer.tell_left > 0 && peer.news <= kind;
  if (!listed) {
    peer.news = kind;
    news_[static_cast<std::size_t>(kind)].push_back(peer.record.key.id);
  }
  // A name that somebody misses is found when views are compared, a change matters now.
  const int spared = kind == News::kNewcomer ? tell_times() / 3 : 0;
  peer.tell_left = static_cast<std::uint8_t>(tell_times() - spared);
}

void PeerTable::fill(RecordList& list, Instant now, PeerId reader, Rng& rng) {
  const Peer* self = find(reader);
  if (self != nullptr && self->record.health != Health::kAlive) {
    if (!list.try_push(told(*self, now))) return;
  }
  const std::size_t most = kRecordsMax - kRandomLeast;
  const std::size_t newcomers = news_[static_cast<std::size_t>(News::kNewcomer)].size();
  const std::size_t rest = newcomers + news_[static_cast<std::size_t>(News::kOfHearsay)].size();
  fill_news(News::kOfMet, list, most - std::min(rest, most / 2), now, reader, rng);
  fill_news(News::kOfHearsay, list, most - std::min(newcomers, most / 4), now, reader, rng);
  fill_news(News::kNewcomer, list, most, now, reader, rng);
  if (full()) draw_some(list, kRandomLeast, now, reader, rng);
}

// Until `list` holds `most`.
void PeerTable::fill_news(News kind, RecordList& list, std::size_t most, Instant now, PeerId reader,
                          Rng& rng) {
  std::vector<PeerId>& news = news_[static_cast<std::size_t>(kind)];
  std::size_t looks = std::min(news.size(), kRecordsMax);
  std::size_t at = news.empty() ? 0 : static_cast<std::size_t>(rng.below(news.size()));
  for (; looks > 0 && !news.empty() && list.size() < most; --looks) {
    at %= news.size();
    Peer* peer = find(news[at]);
    const auto is_news = [&] { return peer && peer->tell_left > 0 && peer->news == kind; };
    if (is_news() && news[at] != reader) {
      if (!list.try_push(told(*peer, now))) return;
      --peer->tell_left;
    }
    if (is_news()) {
      ++at;
      continue;
    }
    news[at] = news.back();
    news.pop_back();
  }
}

void PeerTable::draw_some(RecordList& list, std::size_t most, Instant now, PeerId reader,
                          Rng& rng) const {
  const std::size_t size = round_.size();
  const std::size_t first = size == 0 ? 0 : static_cast<std::size_t>(rng.below(size));
  for (std::size_t i = 0; most > 0 && i < std::min(size, 2 * kRecordsMax); ++i) {
    const Peer& peer = size <= kRecordsMax ? *round_[(first + i) % size].row : draw(rng);
    const PeerId id = peer.record.key.id;
    if (id == reader || is_gone(peer.record.health) || holds(list, id)) continue;
    if (!list.try_push(told(peer, now))) return;
    --most;
  }
}

void PeerTable::fill_ages(AgeList& list, Instant now, PeerId reader, Rng& rng) const {
  const std::size_t size = round_.size();
  const std::size_t first = size == 0 ? 0 : static_cast<std::size_t>(rng.below(size));
  const bool of_all = nearly_full();
  if (!of_all && undialable_ == 0) return;
  for (std::size_t i = 0; i < std::min(size, kAgeDraws); ++i) {
    const Peer& peer = size <= kAgeDraws ? *round_[(first + i) % size].row : draw(rng);
    if (peer.record.key.id == reader || is_gone(peer.record.health)) continue;
    if (!of_all && peer.record.dialable) continue;
    if (!list.try_push({peer.record.key.id, age_of(peer, now)})) return;
  }
}

void PeerTable::note_age(Instant now, const PeerAge& age) {
  Peer* peer = find(age.id);
  if (peer == nullptr) return;
  peer->alive_at = std::max(peer->alive_at, now - std::chrono::seconds(age.age_s) - kOnTheWay);
}

// Puts the row in or takes it out: one and the same.
void PeerTable::toggle_in_digest(const Peer& row) {
  if (is_gone(row.record.health)) return;
  digest_[part_of(row.record.key.id)] ^= digest_of(row.record);
}

std::vector<PeerRecord> PeerTable::of_parts(const std::array<bool, kBucketsMax>& wanted,
                                            Instant now, std::size_t most, Rng& rng) const {
  std::vector<PeerRecord> records;
  if (round_.empty()) return records;
  const auto first = static_cast<std::size_t>(rng.below(round_.size()));
  // Of those we met there may be few among many that were invented.
  std::vector<PeerRecord> hearsay;
  for (std::size_t i = 0; i < round_.size() && records.size() < most; ++i) {
    const Place& place = round_[(first + i) % round_.size()];
    if (!wanted[place.part]) continue;
    const Peer& peer = *place.row;
    if (peer.met || hearsay.size() < most)
      (peer.met ? records : hearsay).push_back(told(peer, now));
  }
  records.resize(std::min(records.size(), most - std::min(hearsay.size(), most / 4)));
  hearsay.resize(std::min(hearsay.size(), most - records.size()));
  records.insert(records.end(), hearsay.begin(), hearsay.end());
  return records;
}

void PeerTable::shift(Duration by) {
  for (auto& [id, peer] : rows_) {
    peer.last_heard += by;
    peer.heard_directly += by;
    peer.alive_at += by;
    peer.proved_at += by;
    peer.health_since += by;
    peer.silent_at += by;
  }
}

// --- who makes room ---

bool PeerTable::make_room(Instant now, const PeerRecord& record, Rng& rng) {
  if (now - known_alive_at(now, record) >= kStale) return false;
  Peer* victim = nullptr;
  for (int i = 0; i < kVictimsDrawn; ++i) {
    Peer& drawn = draw(rng);
    const bool gone = is_gone(drawn.record.health);
    const bool many_gone = rows_.size() - present() > rows_max_ / 4;
    const bool forgotten = gone && (many_gone || now - drawn.health_since >= dead_kept_);
    const bool in_use = drawn.connected || drawn.record.health == Health::kSuspect;
    if (in_use || (gone && !forgotten)) continue;
    if (victim == nullptr) victim = &drawn;
    if (!forgotten && now - drawn.alive_at < kStale) continue;
    victim = &drawn;
    break;
  }
  if (victim == nullptr) return false;
  erase(*victim);
  return true;
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
