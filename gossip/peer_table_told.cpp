// PeerTable: what is told of its rows.
#include <algorithm>
#include <limits>

#include "gossip/peer_table.h"

namespace starling::gossip {
namespace {

// Ages are looked for in so many rows.
constexpr std::size_t kAgeDraws = 4 * kAgesMax;
// Room in a message that news may not take: a sample lives on random records.
constexpr std::size_t kRandomLeast = 4;

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
  if (news_[static_cast<std::size_t>(kind)].size() > news_max()) drop_old_news(kind);
}

// Rows that made room leave their names behind, and names cost nothing.
void PeerTable::drop_old_news(News kind) {
  std::vector<PeerId>& news = news_[static_cast<std::size_t>(kind)];
  std::sort(news.begin(), news.end());
  news.erase(std::unique(news.begin(), news.end()), news.end());
  std::erase_if(news, [&](PeerId id) {
    const Peer* peer = find(id);
    return peer == nullptr || peer->tell_left == 0 || peer->news != kind;
  });
}

bool PeerTable::news_are_bounded() const {
  return std::all_of(news_.begin(), news_.end(),
                     [&](const auto& news) { return news.size() <= news_max(); });
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

}  // namespace starling::gossip
