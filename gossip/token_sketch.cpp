#include "gossip/token_sketch.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"

namespace starling::gossip {
namespace {

constexpr float kNone = std::numeric_limits<float>::max();  // travels, where infinity may not

float exponential(const PeerKey& process, std::size_t k) {
  const std::uint64_t bits =
      mix64(mix64(mix64(process.id.value) ^ process.incarnation) + std::uint64_t{k});
  const double unit = (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;  // in (0, 1)
  return static_cast<float>(-std::log(unit));
}

}  // namespace

TokenSketch::TokenSketch(const PeerKey& self) {
  for (std::size_t k = 0; k < kMinimaMax; ++k) own_[k] = exponential(self, k);
  minima_.fill(kNone);
}

void TokenSketch::set_own(std::uint64_t tokens) {
  if (tokens <= own_tokens_) return;
  own_tokens_ = tokens;
  const auto share = static_cast<float>(tokens);
  for (std::size_t k = 0; k < kMinimaMax; ++k) minima_[k] = std::min(minima_[k], own_[k] / share);
}

void TokenSketch::add(const PeerKey& process, std::uint64_t tokens) {
  if (tokens == 0) return;
  const auto share = static_cast<float>(tokens);
  for (std::size_t k = 0; k < kMinimaMax; ++k) {
    minima_[k] = std::min(minima_[k], exponential(process, k) / share);
  }
}

bool TokenSketch::merge(const Minima& minima) {
  if (minima.size() != kMinimaMax) return false;
  bool news = false;
  for (std::size_t k = 0; k < kMinimaMax; ++k) {
    if (!(minima[k] > 0) || minima[k] >= minima_[k]) continue;
    minima_[k] = minima[k];
    news = true;
  }
  return news;
}

TokenSketch::Minima TokenSketch::minima() const {
  Minima list;
  for (const float least : minima_) STARLING_ASSERT(list.try_push(least));
  return list;
}

double TokenSketch::estimate() const {
  double sum = 0;
  for (const float least : minima_) {
    if (least == kNone) return 0;
    sum += static_cast<double>(least);
  }
  return static_cast<double>(kMinimaMax - 1) / sum;
}

}  // namespace starling::gossip
