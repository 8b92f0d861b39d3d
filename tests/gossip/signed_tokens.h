// Token entries with the signature of their subject, for tests.
#pragma once

#include <cstdint>

#include "gossip/token_map.h"

namespace starling::gossip {

inline constexpr std::uint64_t kTestRun = 1;

inline TokenEntry signed_entry(const PeerKey& key, std::uint64_t tokens, float rate = 0,
                               std::uint64_t run = kTestRun) {
  TokenEntry entry{key, tokens, rate, stand_in_key(key.id), {}};
  const StandInSeal seal(key.id);
  TokenSeal(&seal, run).sign(entry);
  return entry;
}

// The map of process `self`.
inline TokenMap map_of(const PeerKey& self, std::span<const TokenEntry> restored = {},
                       std::size_t entries_max = TokenMap::kEntriesMax) {
  static const StandInSeal kSeals[] = {StandInSeal(PeerId{1}), StandInSeal(PeerId{2})};
  const TokenSeal seal(&kSeals[self.id == PeerId{1} ? 0 : 1], kTestRun);
  return {self, stand_in_key(self.id), seal, restored, Instant{}, entries_max};
}

// What all of it counts for at `now`, with nobody left out.
template <class IsLive>
double estimate(const TokenMap& map, Instant now, IsLive&& is_live) {
  return map.estimate(map.shares(now, is_live, [](PeerId) { return true; }));
}
inline double estimate(const TokenMap& map) {
  return estimate(map, Instant{}, [](const PeerKey&) { return false; });
}

}  // namespace starling::gossip
