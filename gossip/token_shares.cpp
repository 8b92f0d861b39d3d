#include "gossip/token_shares.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/assert.h"
#include "base/rng.h"

namespace starling::gossip {
namespace {

constexpr std::size_t kFew = 4;

double nth_largest(std::vector<double>& values, std::size_t n) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(n);
  std::nth_element(values.begin(), at, values.end(), std::greater<>());
  return *at;
}

}  // namespace

double upper_quartile(std::vector<double>& values) {
  return values.empty() ? 0 : nth_largest(values, values.size() / 4);
}

double usual_of(std::vector<double>& values) {
  const bool few = !values.empty() && values.size() < kFew;
  return few ? nth_largest(values, values.size() / 2) : upper_quartile(values);
}

TokenShares::TokenShares(std::size_t peers_max) : slots_(std::bit_ceil(2 * peers_max + 1)) {
  shares_.reserve(peers_max);
}

std::size_t TokenShares::slot_of(PeerId peer) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = mix64(peer.value) & mask;
  while (slots_[at] != kEmpty && shares_[slots_[at] - 1].peer != peer) at = (at + 1) & mask;
  return at;
}

void TokenShares::add(PeerId peer, double tokens) {
  if (tokens <= 0) return;
  std::uint32_t& place = slots_[slot_of(peer)];
  if (place == kEmpty) {
    shares_.push_back({peer, 0});
    STARLING_ASSERT(shares_.size() < slots_.size());
    place = static_cast<std::uint32_t>(shares_.size());
  }
  shares_[place - 1].tokens += tokens;
}

void TokenShares::settle(double own) {
  std::vector<double> tokens;
  tokens.reserve(shares_.size());
  for (const Share& share : shares_) tokens.push_back(share.tokens);
  if (tokens.empty()) return;
  const double usual = usual_of(tokens) * (tokens.size() < kFew ? kRatio : 1);
  limit_ = kRatio * std::max(own, usual);
  for (Share& share : shares_) {
    if (share.tokens <= limit_) continue;
    clipped_.push_back(share);
    share.tokens = limit_;
  }
}

double TokenShares::total() const {
  double total = 0;
  for (const Share& share : shares_) total += share.tokens;
  return total;
}

}  // namespace starling::gossip
