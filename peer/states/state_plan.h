// StatePlan: how a peer's state is cut into pieces for newcomers: which bytes of which section each
// piece is. Follows from the stripes alone, so both sides of a transfer know it beforehand and no
// length that comes from outside has to be believed.
//
// Also what is computed over pieces: their digest (BLAKE2b-256 of libsodium, RFC 7693) and the
// sketch of weights (a count sketch: Charikar, Chen, Farach-Colton, "Finding frequent items in data
// streams", 2002; its distance estimate is that of Thorup and Zhang, SODA 2004). Plain values.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "gossip/messages.h"
#include "peer/states/stripe_table.h"

namespace starling::peer {

// The sections in the order of their pieces, as checkpoints name them.
inline constexpr std::array<std::string_view, gossip::kStateSections> kStateSectionNames{
    "slow", "first_moment", "second_moment", "momentum"};
inline constexpr std::uint32_t kSecondMoment = 2;

struct StatePiece {
  std::uint32_t section = 0, stripe = 0;
  model::Range range;                                                   // of parameters
  std::uint64_t offset() const { return range.first * sizeof(float); }  // within its section
  std::size_t bytes() const { return range.count * sizeof(float); }
};

class StatePlan {
 public:
  explicit StatePlan(const StripeTable& stripes);  // which outlives it

  std::uint32_t stripes() const noexcept { return stripes_->size(); }
  std::uint32_t pieces() const noexcept { return gossip::kStateSections * stripes(); }
  StatePiece piece(std::uint32_t piece) const;  // below pieces()
  std::size_t parameters() const noexcept { return parameters_; }

  std::uint32_t manifest_parts() const noexcept;
  // Digests in a part; the last one may hold fewer.
  std::uint32_t digests_in(std::uint32_t part) const;
  std::size_t bytes_max() const;  // of any piece or part

 private:
  const StripeTable* stripes_;  // never null
  std::size_t parameters_ = 0;
};

gossip::StateDigest piece_digest(std::span<const std::byte> bytes);

class SketchBuilder {
 public:
  // `first`: the place of the first value among all parameters.
  void add(std::size_t first, std::span<const float> values);
  gossip::StateSketch value() const;

 private:
  std::array<double, gossip::kSketchSize> sums_{};
};

}  // namespace starling::peer
