// PeerSampler: with whom to exchange next. Uniform over the live partners that did not decline just
// now and were not tried in this round; not the last partner again while there is another.
// Muted peers are left out; one that gave reasons to doubt it, or to which only a relay leads, is
// drawn half as often. Uniform choice gives the fastest known gossip on a complete graph (Boyd,
// Ghosh, Prabhakar, Shah: "Randomized gossip algorithms", IEEE Trans. Information Theory 52(6),
// 2006). Thread: one owner.
#pragma once

#include <optional>
#include <span>

#include "base/rng.h"
#include "gossip/conduct.h"
#include "gossip/peer_table.h"

namespace starling::gossip {

class PeerSampler {
 public:
  // Empty if nobody is left to ask.
  std::optional<PeerId> sample(Instant now, const PeerTable& peers, const Conduct& conduct,
                               std::span<const PeerId> tried, Rng& rng) const;
  void remember_partner(PeerId partner) { last_partner_ = partner; }

 private:
  PeerId last_partner_;
};

}  // namespace starling::gossip
