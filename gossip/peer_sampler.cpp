#include "gossip/peer_sampler.h"

#include <algorithm>
#include <vector>

#include "base/assert.h"
#include "gossip/config.h"

namespace starling::gossip {
namespace {

constexpr std::size_t kRowsPerDraw = 16;

// Of `drawn`, the first that is about as near as the nearest.
PeerId near_one(std::span<const PeerId> drawn, const Paces& paces) {
  const auto round_trip = [&](PeerId id) -> std::optional<Duration> {
    const PeerPace* pace = paces.find(id);
    if (pace == nullptr || !pace->answer_within()) return std::nullopt;
    return pace->round_trip();
  };
  const std::optional<Duration> first = round_trip(drawn.front());
  if (!first) return drawn.front();
  Duration nearest = *first;
  for (const PeerId id : drawn) nearest = std::min(nearest, round_trip(id).value_or(nearest));
  const Duration farthest = nearest + std::max(nearest, PeerSampler::kAlike);
  return *std::find_if(drawn.begin(), drawn.end(), [&](PeerId id) {
    const auto measured = round_trip(id);
    return measured && *measured <= farthest;
  });
}

}  // namespace

PeerSampler::PeerSampler(double locality) : locality_(locality) {
  STARLING_ASSERT(locality >= 0);
  STARLING_ASSERT(locality <= kLocalityMax);
}

std::optional<PeerId> PeerSampler::sample(Instant now, const Known& known,
                                          std::span<const PeerId> tried, Rng& rng) const {
  const PeerTable& peers = known.peers;
  const Conduct& conduct = known.conduct;
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
  const std::size_t wanted = locality_ > 0 && rng.chance(locality_) ? kNearDraws : 1;
  std::vector<PeerId> drawn;
  // In a large table a few draws find somebody; only then is it worth not looking at all rows.
  for (std::size_t draws = peers.rows().size() / kRowsPerDraw; draws > 0; --draws) {
    const Peer& peer = peers.draw(rng);
    const PeerId id = peer.record.key.id;
    if (suits(peer) && id != known.last_partner && !passed_over(peer)) drawn.push_back(id);
    if (drawn.size() == wanted) return near_one(drawn, known.paces);
  }
  std::vector<PeerId> candidates;
  for (const auto& [id, peer] : peers.rows()) {
    if (suits(peer)) candidates.push_back(id);
  }
  if (candidates.size() > 1) {
    const auto last = std::find(candidates.begin(), candidates.end(), known.last_partner);
    if (last != candidates.end()) candidates.erase(last);
  }
  if (candidates.empty()) return std::nullopt;
  const auto draw = [&] {
    return candidates[static_cast<std::size_t>(rng.below(candidates.size()))];
  };
  while (drawn.size() < wanted) {
    const PeerId id = draw();
    drawn.push_back(passed_over(*peers.find(id)) ? draw() : id);
  }
  return near_one(drawn, known.paces);
}

}  // namespace starling::gossip
