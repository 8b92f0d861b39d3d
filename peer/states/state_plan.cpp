#include "peer/states/state_plan.h"

#include <sodium.h>

#include <algorithm>

#include "base/assert.h"
#include "base/rng.h"

namespace starling::peer {

StatePlan::StatePlan(const StripeTable& stripes) : stripes_(&stripes) {
  for (std::uint32_t stripe = 0; stripe < stripes.size(); ++stripe) {
    parameters_ += stripes[stripe].range.count;
  }
}

StatePiece StatePlan::piece(std::uint32_t piece) const {
  STARLING_ASSERT(piece < pieces());
  const std::uint32_t stripe = piece % stripes();
  return {piece / stripes(), stripe, (*stripes_)[stripe].range};
}

std::uint32_t StatePlan::manifest_parts() const noexcept {
  return (pieces() + gossip::kDigestsPerPart - 1) / gossip::kDigestsPerPart;
}

std::uint32_t StatePlan::digests_in(std::uint32_t part) const {
  STARLING_ASSERT(part < manifest_parts());
  return std::min(gossip::kDigestsPerPart, pieces() - part * gossip::kDigestsPerPart);
}

std::size_t StatePlan::bytes_max() const {
  return std::max(stripes_->parameters_max() * sizeof(float),
                  digests_in(0) * sizeof(gossip::StateDigest));
}

gossip::StateDigest piece_digest(std::span<const std::byte> bytes) {
  gossip::StateDigest digest;
  static_assert(crypto_generichash_BYTES == sizeof digest.bytes);
  const int made = crypto_generichash(digest.bytes.data(), digest.bytes.size(),
                                      reinterpret_cast<const unsigned char*>(bytes.data()),
                                      bytes.size(), nullptr, 0);
  STARLING_ASSERT(made == 0);
  return digest;
}

void SketchBuilder::add(std::size_t first, std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t drawn = mix64(first + i);
    const double value = (drawn >> 63) != 0 ? -double{values[i]} : double{values[i]};
    sums_[drawn % gossip::kSketchSize] += value;
  }
}

gossip::StateSketch SketchBuilder::value() const {
  gossip::StateSketch sketch;
  for (std::size_t i = 0; i < sums_.size(); ++i) sketch.values[i] = static_cast<float>(sums_[i]);
  return sketch;
}

}  // namespace starling::peer
