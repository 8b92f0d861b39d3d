// TokenMap: who has trained how many tokens, as far as known here. A grow-only map keyed by peer
// and process; merging keeps the larger count, so it is idempotent, commutative and associative and
// duplicates, reordering and loss are harmless (a state-based CRDT: Shapiro et al., "A
// comprehensive study of convergent and commutative replicated data types", 2011, the G-Counter).
//
// At most kEntriesMax entries; further ones are refused and counted. Entries of dead peers stay:
// their tokens were trained. Thread: one owner.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "gossip/messages.h"

namespace starling::gossip {

class TokenMap {
 public:
  static constexpr std::size_t kEntriesMax = 4096;
  // How long a peer's silence is bridged by its last known rate.
  static constexpr Duration kBridgeMax = std::chrono::seconds(60);

  // `self` is the process this map belongs to.
  TokenMap(const PeerKey& self, std::span<const TokenEntry> restored, Instant now);

  void set_own(Instant now, std::uint64_t tokens, float rate);
  // True if the entry was news. A rate that is not a positive finite number counts as 0.
  bool merge(Instant now, const TokenEntry& entry);
  // Own entry first, then entries that changed lately, then random others.
  void fill(BoundedList<TokenEntry, kTokensMax>& list, Rng& rng);

  std::uint64_t total_of(PeerId peer) const;  // over all its processes
  // What our own weights have been trained with: this process, and the lives it was restored from.
  // What others remember of lives that left no checkpoint is not in these weights.
  std::uint64_t in_own_weights() const { return inherited_ + restored_ + counts_.at(self_).tokens; }
  // Our weights are those of others that have trained so much; their own entries count it.
  void inherit(std::uint64_t tokens) { inherited_ = tokens; }
  std::uint64_t known() const { return known_; }
  // What `live` processes have probably trained since they were heard is added.
  double estimate(Instant now, const std::set<PeerKey>& live) const;
  std::vector<TokenEntry> entries() const;
  std::size_t refused() const { return refused_; }

 private:
  struct Count {
    std::uint64_t tokens = 0;
    float rate = 0;
    Instant heard;
    std::uint8_t tell_left = 0;  // messages that carry the news first
  };
  static constexpr std::uint8_t kTellTimes = 4;

  PeerKey self_;
  std::map<PeerKey, Count> counts_;
  std::uint64_t known_ = 0;
  std::uint64_t restored_ = 0;  // our own former lives, as the checkpoint knew them
  std::uint64_t inherited_ = 0;
  std::size_t refused_ = 0;
};

}  // namespace starling::gossip
