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
    : self_(self), entries_max_(std::max<std::size_t>(entries_max, 1)), sketch_(self) {
  row_of(self_).second.heard = now;
  for (const TokenEntry& entry : restored) {
    TokenEntry silent = entry;
    silent.rate = 0;  // nobody knows how long the checkpoint lay on the disk
    if (merge(now, silent) && entry.key.id == self_.id) restored_ += silent.tokens;
    sketch_.add(entry.key, std::min(entry.tokens, kTokensOfProcessMax));
  }
}

TokenMap::Row& TokenMap::row_of(const PeerKey& key) {
  const auto [row, fresh] = counts_.try_emplace(key);
  if (fresh) rows_.push_back(&*row);
  return *row;
}

void TokenMap::set_own(Instant now, std::uint64_t tokens, float rate) {
  Count& own = counts_.at(self_);
  const std::uint64_t larger = std::max(own.tokens, std::min(tokens, kTokensOfProcessMax));
  known_ += larger - own.tokens;
  own = Count{larger, sane_rate(rate), now, 0};
  sketch_.set_own(larger);
}

bool TokenMap::merge(Instant now, const TokenEntry& entry) {
  const PeerKey& key = entry.key;
  const std::uint64_t tokens = std::min(entry.tokens, kTokensOfProcessMax);
  const auto found = counts_.find(key);
  if (found == counts_.end() && counts_.size() >= entries_max_) {
    ++refused_;
    return false;
  }
  if (key == self_) return false;  // nobody knows our count better than we do
  if (found != counts_.end() && found->second.tokens >= tokens) return false;
  Row& row = found == counts_.end() ? row_of(key) : *found;
  Count& count = row.second;
  known_ += tokens - count.tokens;
  const std::uint8_t told = count.tell_left;
  count = Count{tokens, sane_rate(entry.rate), now, kTellTimes};
  if (told == 0) news_.push_back(&row);
  return true;
}

void TokenMap::fill(BoundedList<TokenEntry, kTokensMax>& list, Rng& rng) {
  list.clear();
  const Count& own = counts_.at(self_);
  STARLING_ASSERT(list.try_push({self_, own.tokens, own.rate}));
  std::size_t at = news_.empty() ? 0 : static_cast<std::size_t>(rng.below(news_.size()));
  const std::size_t most = refused_ == 0 ? kTokensMax : kTokensOfPart;
  // A large swarm has more news at any time than fits: a quarter is for what some may have missed.
  const std::size_t news_most = most - most / 4;
  for (std::size_t looks = news_.size(); looks > 0 && list.size() < news_most; --looks) {
    at %= news_.size();
    auto& [key, count] = *news_[at];
    STARLING_ASSERT(list.try_push({key, count.tokens, count.rate}));
    if (--count.tell_left > 0) {
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
    const auto place = few ? (first + i) % size : static_cast<std::size_t>(rng.below(size));
    const auto& [key, count] = *rows_[place];
    const auto is_same = [&wanted = key](const TokenEntry& entry) { return entry.key == wanted; };
    if (std::any_of(list.begin(), list.end(), is_same)) continue;
    STARLING_ASSERT(list.try_push({key, count.tokens, count.rate}));
  }
}

std::uint64_t TokenMap::total_of(PeerId peer) const {
  std::uint64_t total = 0;
  for (auto item = counts_.lower_bound(PeerKey{peer, 0});
       item != counts_.end() && item->first.id == peer; ++item) {
    total += item->second.tokens;
  }
  return total;
}

double TokenMap::bridge(Instant now, const Count& count) {
  if (now <= count.heard) return 0;
  const Duration silence = std::min<Duration>(now - count.heard, kBridgeMax);
  return static_cast<double>(count.rate) * to_seconds(silence);
}

std::vector<TokenEntry> TokenMap::entries() const {
  std::vector<TokenEntry> all;
  all.reserve(counts_.size());
  for (const auto& [key, count] : counts_) all.push_back({key, count.tokens, count.rate});
  return all;
}

}  // namespace starling::gossip
