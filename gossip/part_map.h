// PartMap: how often each part of the training data has been read to its end, and which parts are
// being read now, as far as known here. Passes are grow-only registers, one per part, merged by
// maximum; a claim is the register of the process that made it, merged by its sequence number. Both
// are joins, so duplicates, reordering and loss are harmless (state-based CRDTs: Shapiro et al., "A
// comprehensive study of convergent and commutative replicated data types", 2011, sections 3.1 and
// 3.2).
//
// Passes are shared: whoever finishes a part writes one more than it knew. Two that finish the same
// part unknown to each other count as one; "never read" is exact, "read more often" is a lower
// bound. Whether a claim still holds is the business of those who know the members. What a member
// lies is believed here; PartChoice bounds what comes of it.
//
// At most kPartsMax parts and kClaimsMax claims; others are refused. Thread: one owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/rng.h"
#include "gossip/messages.h"

namespace starling::gossip {

class PartMap {
 public:
  static constexpr std::size_t kClaimsMax = 4096;

  // Of `parts` parts. `restored`: passes by part, as a checkpoint knew them, or empty.
  PartMap(std::uint16_t parts, std::span<const std::uint16_t> restored);
  PartMap(PartMap&&) = default;  // order_ refers to the rows
  PartMap& operator=(PartMap&&) = default;

  // True if it was news. What names an unknown part is refused as a whole.
  bool merge(const PartPasses& entry);
  bool merge(const PartClaim& claim);
  // This peer has read `part` to its end, so many times.
  void finish(std::uint16_t part, std::uint16_t times);

  // News first, then one part after the other.
  void fill(BoundedList<PartPasses, kPartPassesMax>& list);
  // The claim of `self` first, then news, then random others; only those that `holds`. The same
  // work at any number of claims: where few hold, not all that do may be found.
  void fill(BoundedList<PartClaim, kPartClaimsMax>& list, PeerId self, Rng& rng,
            const std::function<bool(const PartClaim&)>& holds);

  std::uint16_t parts() const { return static_cast<std::uint16_t>(passes_.size()); }
  std::uint16_t passes(std::uint16_t part) const { return passes_.at(part).passes; }
  template <class Visitor>
  void each_claim(Visitor&& visit) const {
    for (const auto& [holder, row] : claims_) visit(row.claim);
  }
  std::size_t claims() const { return claims_.size(); }
  // Looks at the next few claims, one after the other, and forgets those that `lapsed`.
  template <class Lapsed>
  void forget_some(std::size_t looks, Lapsed&& lapsed);

 private:
  struct Row {
    std::uint16_t passes = 0;
    std::uint8_t tell_left = 0;  // messages that carry the news first
  };
  struct ClaimRow {
    PartClaim claim;
    std::uint8_t tell_left = 0;
    std::size_t place = 0;  // in order_
  };
  void exchange(std::size_t one, std::size_t other);
  void erase(std::map<PeerId, ClaimRow>::iterator row);

  static constexpr std::uint8_t kTellTimes = 6;

  std::vector<Row> passes_;
  std::size_t news_ = 0;         // rows with tell_left
  std::uint16_t next_ = 0;       // where telling one after the other goes on
  std::uint16_t next_news_ = 0;  // likewise, of news
  std::map<PeerId, ClaimRow> claims_;
  // All of claims_ in the order in which they are told, which is drawn: the news first.
  std::vector<ClaimRow*> order_;
  std::size_t claim_news_ = 0;  // of order_
  PeerId looked_at_;            // where forgetting some goes on: after this one
};

template <class Lapsed>
void PartMap::forget_some(std::size_t looks, Lapsed&& lapsed) {
  for (looks = std::min(looks, claims_.size()); looks > 0; --looks) {
    auto next = claims_.upper_bound(looked_at_);
    if (next == claims_.end()) next = claims_.begin();
    looked_at_ = next->first;
    if (lapsed(next->second.claim)) erase(next);
  }
}

}  // namespace starling::gossip
