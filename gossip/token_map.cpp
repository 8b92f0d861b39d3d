#include "gossip/token_map.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace starling::gossip {
namespace {

// Entries in a message once the map is only a part: the sketch says more.
constexpr std::size_t kTokensOfPart = 8;

float sane_rate(float rate) {
  return std::isfinite(rate) && rate > 0 ? std::min(rate, 1e12F) : 0.0F;
}

}  // namespace

TokenMap::TokenMap(const PeerKey& self, std::span<const TokenEntry> restored, Instant now,
                   std::size_t entries_max)
    : entries_max_(std::max<std::size_t>(entries_max, 1)), sketch_(self) {
  add(self).heard = now;
  for (const TokenEntry& entry : restored) {
    TokenEntry silent = entry;
    silent.rate = 0;  // nobody knows how long the checkpoint lay on the disk
    if (merge(now, silent) && entry.key.id == self.id) restored_ += silent.tokens;
    sketch_.add(entry.key, std::min(entry.tokens, kTokensOfProcessMax));
  }
}

TokenMap::Row* TokenMap::find(const PeerKey& key) {
  const auto found = places_.find(key);
  return found == places_.end() ? nullptr : &rows_[found->second];
}

TokenMap::Row& TokenMap::add(const PeerKey& key) {
  places_[key] = static_cast<std::uint32_t>(rows_.size());
  rows_.push_back({key, 0, {}, 0, 0});
  return rows_.back();
}

void TokenMap::set_own(Instant now, std::uint64_t tokens, float rate) {
  Row& own = rows_.front();
  const std::uint64_t larger = std::max(own.tokens, std::min(tokens, kTokensOfProcessMax));
  known_ += larger - own.tokens;
  own = {own.key, larger, now, sane_rate(rate), 0};
  sketch_.set_own(larger);
}

bool TokenMap::merge(Instant now, const TokenEntry& entry) {
  const std::uint64_t tokens = std::min(entry.tokens, kTokensOfProcessMax);
  Row* row = find(entry.key);
  if (row == nullptr && rows_.size() >= entries_max_) {
    ++refused_;
    return false;
  }
  if (row == &rows_.front()) return false;  // nobody knows our count better than we do
  if (row != nullptr && row->tokens >= tokens) return false;
  if (row == nullptr) row = &add(entry.key);
  known_ += tokens - row->tokens;
  if (row->tell_left == 0) news_.push_back(static_cast<std::uint32_t>(row - rows_.data()));
  *row = {entry.key, tokens, now, sane_rate(entry.rate), kTellTimes};
  return true;
}

void TokenMap::fill(BoundedList<TokenEntry, kTokensMax>& list, Rng& rng) {
  list.clear();
  const auto tell = [&list](const Row& row) {
    STARLING_ASSERT(list.try_push({row.key, row.tokens, row.rate}));
  };
  tell(rows_.front());
  std::size_t at = news_.empty() ? 0 : static_cast<std::size_t>(rng.below(news_.size()));
  const std::size_t most = refused_ == 0 ? kTokensMax : kTokensOfPart;
  // A large swarm has more news at any time than fits: a quarter is for what some may have missed.
  const std::size_t news_most = most - most / 4;
  for (std::size_t looks = news_.size(); looks > 0 && list.size() < news_most; --looks) {
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
  for (std::size_t i = 0; i < std::min(size, 2 * most) && list.size() < most; ++i) {
    const bool few = size <= kTokensMax;
    const Row& row = rows_[few ? (first + i) % size : static_cast<std::size_t>(rng.below(size))];
    const auto is_same = [&row](const TokenEntry& entry) { return entry.key == row.key; };
    if (std::none_of(list.begin(), list.end(), is_same)) tell(row);
  }
}

std::unordered_map<PeerId, std::uint64_t> TokenMap::totals() const {
  std::unordered_map<PeerId, std::uint64_t> totals;
  for (const Row& row : rows_) totals[row.key.id] += row.tokens;
  return totals;
}

double TokenMap::bridge(Instant now, const Row& row) {
  if (now <= row.heard) return 0;
  const Duration silence = std::min<Duration>(now - row.heard, kBridgeMax);
  return static_cast<double>(row.rate) * to_seconds(silence);
}

std::vector<TokenEntry> TokenMap::entries() const {
  std::vector<TokenEntry> all;
  all.reserve(rows_.size());
  for (const Row& row : rows_) all.push_back({row.key, row.tokens, row.rate});
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return all;
}

}  // namespace starling::gossip
