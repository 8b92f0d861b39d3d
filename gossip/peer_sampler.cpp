#include "gossip/peer_sampler.h"

#include <algorithm>
#include <vector>

namespace starling::gossip {
namespace {

constexpr std::size_t kRowsPerDraw = 16;

}  // namespace

std::optional<PeerId> PeerSampler::sample(Instant now, const PeerTable& peers,
                                          const Conduct& conduct, std::span<const PeerId> tried,
                                          Rng& rng) const {
  const auto suits = [&](const Peer& peer) {
    const PeerId id = peer.record.key.id;
    const bool live = peer.welcomed && peer.record.health == Health::kAlive;
    if (!live || peer.unanswered || now < peer.declined_until) return false;
    if (conduct.muted(now, id) || conduct.resting(now, id)) return false;
    return can_be_sent_to(peer, now) && std::find(tried.begin(), tried.end(), id) == tried.end();
  };
  // Every second doubtful one is passed over for another draw: every peer keeps at least half of
  // its even share. So is one that is spoken to through a relay: others pay for that.
  const auto passed_over = [&](const Peer& peer) {
    const bool second_choice =
        conduct.doubtful(now, peer.record.key.id) || is_out_of_reach(peer, now);
    return second_choice && rng.chance(0.5);
  };
  // In a large table a few draws find somebody; only then is it worth not looking at all rows.
  for (std::size_t draws = peers.rows().size() / kRowsPerDraw; draws > 0; --draws) {
    const Peer& peer = peers.draw(rng);
    const PeerId id = peer.record.key.id;
    if (suits(peer) && id != last_partner_ && !passed_over(peer)) return id;
  }
  std::vector<PeerId> candidates;
  for (const auto& [id, peer] : peers.rows()) {
    if (suits(peer)) candidates.push_back(id);
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
  return passed_over(*peers.find(drawn)) ? draw() : drawn;
}

}  // namespace starling::gossip
