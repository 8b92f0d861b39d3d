// PeerSampler: with whom to exchange next. Uniform over the live partners that did not decline just
// now and were not tried in this round; not the fragment's last partner again while there is
// another. Muted peers are left out; one that gave reasons to doubt it, or to which only a relay
// leads, is drawn half as often. Uniform choice gives the fastest known gossip on a complete graph
// (Boyd, Ghosh, Prabhakar, Shah: "Randomized gossip algorithms", IEEE Trans. Information Theory
// 52(6), 2006).
//
// With chance `locality` a near partner is preferred: of kNearDraws drawn as above, the first that
// is about as near as the nearest. Near is a short round trip (peer_pace.h), as it is the same for
// both sides: who is near to many is near for them. Rates are not; by them nobody would draw
// whoever has a thin line. Where the first draw's round trip is not known that one is taken: it
// keeps its even share. So whatever the distances, a peer has at least 1 - locality and at most 1 +
// (kNearDraws - 1) locality times its even share of the offers, and mixing, which is linear in the
// rates at which pairs meet, is at most 1 / (1 - locality) times slower. Thread: one owner.
#pragma once

#include <optional>
#include <span>

#include "base/rng.h"
#include "gossip/conduct.h"
#include "gossip/peer_pace.h"
#include "gossip/peer_table.h"

namespace starling::gossip {

class PeerSampler {
 public:
  static constexpr int kNearDraws = 8;
  // Round trips that differ by less are alike: so much the machines make of it, not the line.
  static constexpr Duration kAlike = std::chrono::milliseconds(5);

  struct Known {
    const PeerTable& peers;
    const Conduct& conduct;
    const Paces& paces;
    // Of this fragment: were it the last one of any, two partners would take turns, and of an even
    // number of fragments each would always meet the same one.
    PeerId last_partner{};
  };

  // 0 to kLocalityMax (config.h).
  explicit PeerSampler(double locality);

  // Empty if nobody is left to ask.
  std::optional<PeerId> sample(Instant now, const Known& known, std::span<const PeerId> tried,
                               Rng& rng) const;

 private:
  double locality_;
};

}  // namespace starling::gossip
