#include "gossip/forgotten_peers.h"

namespace starling::gossip {

void ForgottenPeers::remember(const PeerKey& process, std::uint64_t offers_seen, bool doubted,
                              Instant alive_at) {
  if (offers_seen == 0 && !doubted) return;
  const auto [found, fresh] = rows_.try_emplace(process.id);
  if (!fresh) order_.erase(found->second.turn);
  found->second = {process.incarnation, offers_seen, doubted, alive_at, ++turns_};
  order_.emplace(turns_, process.id);
  if (rows_.size() <= rows_max_) return;
  rows_.erase(order_.begin()->second);
  order_.erase(order_.begin());
}

std::uint64_t ForgottenPeers::offers_seen(const PeerKey& process) const {
  const auto found = rows_.find(process.id);
  const bool same = found != rows_.end() && found->second.incarnation == process.incarnation;
  return same ? found->second.offers_seen : 0;
}

bool ForgottenPeers::is_stale(const PeerKey& process, Instant alive_at) const {
  const auto found = rows_.find(process.id);
  if (found == rows_.end()) return false;
  const Row& row = found->second;
  if (process.incarnation < row.incarnation) return alive_at < row.alive_at + kEarlierTold;
  return row.doubted && process.incarnation == row.incarnation && alive_at <= row.alive_at;
}

void ForgottenPeers::shift(Duration by) {
  for (auto& [id, row] : rows_) row.alive_at += by;
}

}  // namespace starling::gossip
