#include "gossip/peer_sampler.h"

#include <algorithm>
#include <vector>

namespace starling::gossip {

std::optional<PeerId> PeerSampler::sample(Instant now, const PeerTable& peers,
                                          const Conduct& conduct, std::span<const PeerId> tried,
                                          Rng& rng) const {
  std::vector<PeerId> candidates;
  for (const auto& [id, peer] : peers.rows()) {
    const bool live = peer.welcomed && peer.record.health == Health::kAlive;
    if (!live || now < peer.declined_until || conduct.muted(now, id)) continue;
    if (std::find(tried.begin(), tried.end(), id) != tried.end()) continue;
    candidates.push_back(id);
  }
  if (candidates.size() > 1) {
    const auto last = std::find(candidates.begin(), candidates.end(), last_partner_);
    if (last != candidates.end()) candidates.erase(last);
  }
  if (candidates.empty()) return std::nullopt;
  const auto draw = [&] {
    return candidates[static_cast<std::size_t>(rng.below(candidates.size()))];
  };
  const PeerId drawn = draw();
  // Once more for a doubtful one: every peer keeps at least half of its even share.
  return conduct.doubtful(now, drawn) && rng.chance(0.5) ? draw() : drawn;
}

}  // namespace starling::gossip
