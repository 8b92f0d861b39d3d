#include "gossip/token_map.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/assert.h"

namespace starling::gossip {
namespace {

// Of the entries in a message. A large swarm has more news at any time than fits, and what some may
// have missed takes as much room.
constexpr std::size_t kNewsMax = kTokensMax / 2;

float sane_rate(float rate) {
  return std::isfinite(rate) && rate > 0 ? std::min(rate, TokenSeal::kRateMax) : 0.0F;
}

// Rounded, so that it does not grow by being told on.
std::uint16_t age_in_seconds(Instant now, Instant then) {
  const double seconds = std::round(to_seconds(now - then));
  return static_cast<std::uint16_t>(std::clamp(seconds, 0.0, 65535.0));
}

}  // namespace

TokenMap::TokenMap(const PeerKey& self, const PublicKey& owner, const TokenSeal& seal,
                   std::span<const TokenEntry> restored, Instant now, std::size_t entries_max)
    : entries_max_(std::max<std::size_t>(entries_max, 1)),
      seal_(seal),
      owner_(owner),
      signed_at_(now),
      sketch_(self) {
  add(self).trained_at = now;
  own_signed_ = own_entry();
  for (const TokenEntry& entry : restored) {
    // Who lives is not known yet. A full one has no room for all, as there is one life more.
    if (merge(now, entry, [&](const PeerKey& key) { return key == entry.key; }) != Heard::kNews) {
      continue;
    }
    Row& row = *find(entry.key);
    row.rate = 0;  // nobody knows how long the checkpoint lay on the disk
    row.restored = entry.tokens;
    (entry.key.id == self.id ? restored_ : restored_others_[entry.key.id]) += entry.tokens;
    sketch_.add(entry.key, entry.tokens);
  }
}

TokenMap::Row* TokenMap::find(const PeerKey& key) {
  const auto found = places_.find(key);
  return found == places_.end() ? nullptr : &rows_[found->second];
}

TokenMap::Row& TokenMap::add(const PeerKey& key) {
  places_[key] = static_cast<std::uint32_t>(rows_.size());
  Row& row = rows_.emplace_back();
  row.key = key;
  proofs_.emplace_back();
  return row;
}

void TokenMap::set_own(Instant now, std::uint64_t tokens, float rate) {
  Row& own = rows_.front();
  own.tokens = std::max(own.tokens, std::min(tokens, kTokensOfProcessMax));
  own.trained_at = now;
  own.rate = sane_rate(rate);
  sketch_.set_own(own.tokens);
}

TokenMap::Heard TokenMap::merge(Instant now, const TokenEntry& entry, const IsLive& is_live) {
  Row* row = find(entry.key);
  if (row == &rows_.front()) return Heard::kNothingNew;  // nobody knows our count better than we do
  if (entry.tokens <= (row == nullptr ? 0 : row->tokens)) return Heard::kNothingNew;
  Row* gives_way = nullptr;
  if (row == nullptr && rows_.size() >= entries_max_) {
    complete_ = false;
    if (is_live && is_live(entry.key)) gives_way = dead_with_least(is_live);
    if (gives_way == nullptr) return Heard::kNothingNew;
  }
  if (!seal_.verify(entry)) return Heard::kForged;
  if (gives_way != nullptr) make_room(*gives_way, entry.key);
  if (row == nullptr) row = gives_way != nullptr ? gives_way : &add(entry.key);
  take(now, *row, entry);
  return Heard::kNews;
}

// The same for the same rows, in whatever order they came.
TokenMap::Row* TokenMap::dead_with_least(const IsLive& is_live) {
  const auto rank = [](const Row& row) { return std::tie(row.tokens, row.key); };
  Row* least = nullptr;
  for (Row& row : rows_) {
    const bool less = &row != &rows_.front() && (least == nullptr || rank(row) < rank(*least));
    if (less && !is_live(row.key)) least = &row;
  }
  return least;
}

// What it has trained stays in the sketch, though nobody else should have put it there.
void TokenMap::make_room(Row& row, const PeerKey& to) {
  sketch_.add(row.key, row.tokens);
  const auto place = places_.extract(row.key).mapped();
  places_[to] = place;
}

void TokenMap::take(Instant now, Row& row, const TokenEntry& entry) {
  const auto place = static_cast<std::uint32_t>(&row - rows_.data());
  if (row.tell_left == 0) news_.push_back(place);
  const Instant trained_at = now - std::chrono::seconds(entry.age_s);
  const std::uint64_t restored = row.key == entry.key ? row.restored : 0;
  row = {entry.key, entry.tokens, trained_at, restored, entry.rate, kTellTimes};
  proofs_[place] = {entry.owner, entry.rate, entry.signature};
}

TokenEntry TokenMap::entry_of(const Row& row) const {
  const auto place = static_cast<std::size_t>(&row - rows_.data());
  if (place == 0) return own_signed_;
  const Proof& proof = proofs_[place];
  return {row.key, row.tokens, proof.rate, proof.owner, proof.signature};
}

TokenEntry TokenMap::own_entry() const {
  const Row& own = rows_.front();
  TokenEntry entry{own.key, own.tokens, own.rate, owner_, {}};
  seal_.sign(entry);
  return entry;
}

void TokenMap::fill(Instant now, BoundedList<TokenEntry, kTokensMax>& list, Rng& rng) {
  list.clear();
  const auto tell = [this, now, &list](const Row& row) {
    TokenEntry entry = entry_of(row);
    entry.age_s = age_in_seconds(now, &row == &rows_.front() ? signed_at_ : row.trained_at);
    STARLING_ASSERT(list.try_push(entry));
  };
  const bool news = rows_.front().tokens != own_signed_.tokens;
  if (news && (own_signed_.tokens == 0 || now - signed_at_ >= kSignEvery)) {
    own_signed_ = own_entry();
    signed_at_ = now;
  }
  if (own_signed_.tokens > 0) tell(rows_.front());
  std::size_t at = news_.empty() ? 0 : static_cast<std::size_t>(rng.below(news_.size()));
  for (std::size_t looks = news_.size(); looks > 0 && list.size() < kNewsMax; --looks) {
    at %= news_.size();
    Row& row = rows_[news_[at]];
    tell(row);
    if (--row.tell_left > 0) {
      ++at;
      continue;
    }
    news_[at] = news_.back();
    news_.pop_back();
    if (news_.empty()) break;
  }
  // Others at random; all of them if they are few.
  const auto size = rows_.size();
  const auto first = static_cast<std::size_t>(rng.below(size));
  for (std::size_t i = 0; i < std::min(size, 2 * kTokensMax) && !list.full(); ++i) {
    const bool few = size <= kTokensMax;
    const Row& row = rows_[few ? (first + i) % size : static_cast<std::size_t>(rng.below(size))];
    const auto is_same = [&row](const TokenEntry& entry) { return entry.key == row.key; };
    if (row.tokens > 0 && std::none_of(list.begin(), list.end(), is_same)) tell(row);
  }
}

std::unordered_map<PeerId, std::uint64_t> TokenMap::totals() const {
  std::unordered_map<PeerId, std::uint64_t> totals;
  for (const Row& row : rows_) totals[row.key.id] += row.tokens;
  return totals;
}

std::vector<TokenMap::Missed> TokenMap::missed() const {
  std::unordered_map<PeerId, double> seconds;
  for (const Row& row : rows_) {
    if (!restored_others_.contains(row.key.id) || !(row.rate > 0)) continue;
    seconds[row.key.id] += static_cast<double>(row.tokens - row.restored) / row.rate;
  }
  std::vector<Missed> missed;
  for (const auto& [peer, since] : seconds) missed.push_back({peer, since});
  return missed;
}

double TokenMap::bridge(Instant now, const Row& row) {
  if (now <= row.trained_at) return 0;
  const Duration since = std::min<Duration>(now - row.trained_at, kBridgeMax);
  return static_cast<double>(row.rate) * to_seconds(since);
}

std::vector<TokenEntry> TokenMap::entries() const {
  std::vector<TokenEntry> all;
  all.reserve(rows_.size());
  for (const Row& row : rows_) {
    all.push_back(&row == &rows_.front() ? own_entry() : entry_of(row));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return all;
}

}  // namespace starling::gossip
