#include "gossip/token_map.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace starling::gossip {
namespace {

// Above any real count, below what could overflow the sum of a full map.
constexpr std::uint64_t kTokensPerEntryMax = std::uint64_t{1} << 51;

float sane_rate(float rate) {
  return std::isfinite(rate) && rate > 0 ? std::min(rate, 1e12F) : 0.0F;
}

}  // namespace

TokenMap::TokenMap(const PeerKey& self, std::span<const TokenEntry> restored, Instant now)
    : self_(self) {
  counts_[self_] = Count{0, 0, now, 0};
  for (const TokenEntry& entry : restored) {
    TokenEntry silent = entry;
    silent.rate = 0;  // nobody knows how long the checkpoint lay on the disk
    if (merge(now, silent) && entry.key.id == self_.id) restored_ += silent.tokens;
  }
}

void TokenMap::set_own(Instant now, std::uint64_t tokens, float rate) {
  Count& own = counts_[self_];
  const std::uint64_t larger = std::max(own.tokens, std::min(tokens, kTokensPerEntryMax));
  known_ += larger - own.tokens;
  own = Count{larger, sane_rate(rate), now, 0};
}

bool TokenMap::merge(Instant now, const TokenEntry& entry) {
  const PeerKey& key = entry.key;
  const std::uint64_t tokens = std::min(entry.tokens, kTokensPerEntryMax);
  const auto found = counts_.find(key);
  if (found == counts_.end() && counts_.size() >= kEntriesMax) {
    ++refused_;
    return false;
  }
  if (key == self_) return false;  // nobody knows our count better than we do
  if (found != counts_.end() && found->second.tokens >= tokens) return false;
  Count& count = counts_[key];
  known_ += tokens - count.tokens;
  count = Count{tokens, sane_rate(entry.rate), now, kTellTimes};
  return true;
}

void TokenMap::fill(BoundedList<TokenEntry, kTokensMax>& list, Rng& rng) {
  list.clear();
  const Count& own = counts_.at(self_);
  STARLING_ASSERT(list.try_push({self_, own.tokens, own.rate}));
  std::vector<std::pair<const PeerKey, Count>*> others;
  others.reserve(counts_.size());
  for (auto& item : counts_) {
    if (item.first != self_) others.push_back(&item);
  }
  for (std::size_t i = others.size(); i > 1; --i) {
    std::swap(others[i - 1], others[static_cast<std::size_t>(rng.below(i))]);
  }
  std::stable_partition(others.begin(), others.end(),
                        [](const auto* item) { return item->second.tell_left > 0; });
  for (auto* item : others) {
    Count& count = item->second;
    if (!list.try_push({item->first, count.tokens, count.rate})) return;
    if (count.tell_left > 0) --count.tell_left;
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

double TokenMap::estimate(Instant now, const std::set<PeerKey>& live) const {
  double total = static_cast<double>(known_);
  for (const auto& [key, count] : counts_) {
    if (live.count(key) == 0 || now <= count.heard) continue;
    const Duration silence = std::min<Duration>(now - count.heard, kBridgeMax);
    total += static_cast<double>(count.rate) * to_seconds(silence);
  }
  return total;
}

std::vector<TokenEntry> TokenMap::entries() const {
  std::vector<TokenEntry> all;
  all.reserve(counts_.size());
  for (const auto& [key, count] : counts_) all.push_back({key, count.tokens, count.rate});
  return all;
}

}  // namespace starling::gossip
