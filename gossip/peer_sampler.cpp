#include "gossip/peer_sampler.h"

#include <algorithm>
#include <vector>

namespace starling::gossip {

std::optional<PeerId> PeerSampler::sample(Instant now, const PeerTable& peers,
                                          std::span<const PeerId> tried, Rng& rng) const {
  std::vector<PeerId> candidates;
  for (const auto& [id, peer] : peers.rows()) {
    const bool live = peer.welcomed && peer.record.health == Health::kAlive;
    if (!live || now < peer.declined_until) continue;
    if (std::find(tried.begin(), tried.end(), id) != tried.end()) continue;
    candidates.push_back(id);
  }
  if (candidates.size() > 1) {
    const auto last = std::find(candidates.begin(), candidates.end(), last_partner_);
    if (last != candidates.end()) candidates.erase(last);
  }
  if (candidates.empty()) return std::nullopt;
  return candidates[static_cast<std::size_t>(rng.below(candidates.size()))];
}

}  // namespace starling::gossip
