#include "gossip/conduct.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/assert.h"

namespace starling::gossip {

Duration Conduct::offend(Instant now, PeerId peer) {
  Row& row = row_of(now, peer);
  if (row.offences > 0 && now < row.muted_until) return Duration::zero();
  if (now - row.muted_until >= kForgivenAfter) row.offences = 0;
  Duration length = kFirstMute;
  for (std::uint8_t i = 0; i < row.offences && length < kLongestMute; ++i) length *= 2;
  length = std::min(length, kLongestMute);
  if (row.offences < UINT8_MAX) ++row.offences;
  row.muted_until = now + length;
  row.told = false;
  return length;
}

void Conduct::doubt(Instant now, PeerId peer) {
  Row& row = row_of(now, peer);
  row.doubts = std::min(doubts(now, row) + 1, kDoubtsMax);
  row.doubts_at = now;
}

bool Conduct::muted(Instant now, PeerId peer) const {
  return muted_for(now, peer) > Duration::zero();
}

Duration Conduct::muted_for(Instant now, PeerId peer) const {
  const auto found = rows_.find(peer);
  if (found == rows_.end() || found->second.offences == 0) return Duration::zero();
  return std::max<Duration>(found->second.muted_until - now, Duration::zero());
}

std::size_t Conduct::muted(Instant now) const {
  return static_cast<std::size_t>(std::count_if(
      rows_.begin(), rows_.end(), [&](const auto& item) { return muted(now, item.first); }));
}

bool Conduct::doubtful(Instant now, PeerId peer) const {
  const auto found = rows_.find(peer);
  return found != rows_.end() && doubts(now, found->second) >= kDoubtful;
}

void Conduct::silent(Instant now, PeerId peer, Duration lost) {
  Row& row = row_of(now, peer);
  Duration rest = kRestFactor * lost;
  for (std::uint8_t i = 0; i < row.silences && rest < kLongestRest; ++i) rest *= 2;
  if (row.silences < UINT8_MAX) ++row.silences;
  row.rests_until = std::max(row.rests_until, now + std::min(rest, kLongestRest));
  row.shut_out_until = std::max(row.shut_out_until, now + std::min(rest, kLongestShutOut));
}

void Conduct::completed(PeerId peer) {
  const auto found = rows_.find(peer);
  if (found != rows_.end() && found->second.silences > 0) --found->second.silences;
}

bool Conduct::resting(Instant now, PeerId peer) const {
  const auto found = rows_.find(peer);
  return found != rows_.end() && now < found->second.rests_until;
}

bool Conduct::shut_out(Instant now, PeerId peer) const {
  const auto found = rows_.find(peer);
  return found != rows_.end() && now < found->second.shut_out_until;
}

void Conduct::kept_others_out(Instant now, PeerId peer, Duration held) {
  Row& row = row_of(now, peer);
  const Duration length = std::min<Duration>(kYieldFactor * held, kLongestShutOut);
  row.yields_until = std::max(row.yields_until, now + length);
}

bool Conduct::yields(Instant now, PeerId peer) const {
  const auto found = rows_.find(peer);
  return found != rows_.end() && now < found->second.yields_until;
}

bool Conduct::tell(PeerId peer) {
  const auto found = rows_.find(peer);
  if (found == rows_.end() || found->second.told) return false;
  found->second.told = true;
  return true;
}

bool Conduct::takes_offer(Instant now, PeerId peer) {
  Row& row = row_of(now, peer);
  const double refill = kOffersPerSecond * to_seconds(now - row.offers_at);
  row.offers = std::min(row.offers + refill, kOffersAtOnce);
  row.offers_at = now;
  if (row.offers < 1) return false;
  row.offers -= 1;
  return true;
}

double Conduct::doubts(Instant now, const Row& row) {
  return row.doubts * std::exp2(-to_seconds(now - row.doubts_at) / to_seconds(kDoubtHalves));
}

Conduct::Row& Conduct::row_of(Instant now, PeerId peer) {
  const auto found = rows_.find(peer);
  if (found != rows_.end()) return found->second;
  if (rows_.size() == kRowsMax) make_room(now);
  Row row;
  row.doubts_at = now;
  row.offers_at = now;
  return rows_.emplace(peer, row).first->second;
}

// Who is muted longest stays longest, then who offended, then who was silent, then who is doubted,
// then who is busy.
void Conduct::make_room(Instant now) {
  const auto weight = [now](const Row& row) {
    const Duration muted = row.offences > 0 ? row.muted_until - now : Duration::zero();
    return std::tuple(std::max<Duration>(muted, Duration::zero()), row.offences, row.silences,
                      doubts(now, row), row.offers_at);
  };
  const auto least =
      std::min_element(rows_.begin(), rows_.end(), [&weight](const auto& left, const auto& right) {
        return weight(left.second) < weight(right.second);
      });
  STARLING_ASSERT(least != rows_.end());
  rows_.erase(least);
}

}  // namespace starling::gossip
