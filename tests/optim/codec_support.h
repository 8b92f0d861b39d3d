// What the codec tests share: random stripes, and one exchange of one stripe from end to end.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "optim/fragment_codec.h"
#include "optim/lattice.h"
#include "optim/vector_math.h"

namespace starling::optim {

inline constexpr std::span kModularFormats = std::span(kWireFormats).subspan<2>();
static_assert(std::ranges::all_of(kModularFormats, is_modular));
static_assert(std::ranges::count_if(kWireFormats, is_modular) == kModularFormats.size());

inline std::vector<float> normal_values(Rng& rng, std::size_t count, float scale) {
  std::vector<float> values(count);
  for (float& value : values) value = scale * rng.normal();
  return values;
}

inline std::vector<float> plus(std::vector<float> values, const std::vector<float>& other) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += other[i];
  return values;
}

inline std::vector<std::int8_t> same_exponents(std::size_t parameters, int exponent) {
  return std::vector<std::int8_t>(block_count(parameters), static_cast<std::int8_t>(exponent));
}

inline std::vector<std::byte> push_of(WireFormat format, std::uint64_t key,
                                      const std::vector<float>& slow, int exponent) {
  std::vector<std::byte> push(push_bytes(format, slow.size()));
  const auto exponents = same_exponents(slow.size(), exponent);
  REQUIRE(encode_push(format, key, slow, exponents, push).ok());
  return push;
}

// As an exchange would tell of it.
inline std::vector<BlockReport> blocks_of(std::span<const float> difference) {
  std::vector<BlockReport> blocks;
  for (std::size_t first = 0; first < difference.size(); first += kBlockParameters) {
    const std::size_t count = std::min(kBlockParameters, difference.size() - first);
    const VectorStats stats = measure(difference.subspan(first, count));
    blocks.push_back({stats.sum_of_squares, stats.max_abs, 0.0f});
  }
  return blocks;
}
inline std::vector<BlockReport> blocks_of(std::size_t parameters, float everywhere) {
  return blocks_of(std::vector<float>(parameters, everywhere));
}

struct Exchanged {
  std::vector<std::byte> push, delta;
  std::vector<float> difference;
  DeltaReport made, report;  // of the responder, of the initiator
  std::vector<BlockReport> made_blocks, blocks;
};

// `exponent`: of every block. `radius`: the clip radius, zero for none.
inline Exchanged exchange_stripe(WireFormat format, std::uint64_t key,
                                 const std::vector<float>& initiator,
                                 const std::vector<float>& responder, int exponent,
                                 float radius = 0.0f) {
  const std::size_t count = initiator.size();
  Exchanged result;
  result.push = push_of(format, key, initiator, exponent);
  result.delta.resize(delta_bytes(format, count));
  result.difference.resize(count);
  result.made_blocks.resize(block_count(count));
  result.blocks.resize(block_count(count));
  auto made = make_delta(key, result.push, responder, radius, result.delta, result.made_blocks);
  REQUIRE(made.ok());
  result.made = std::move(made).value();
  auto decoded = decode_delta(result.delta, result.difference, result.blocks, initiator);
  REQUIRE(decoded.ok());
  result.report = std::move(decoded).value();
  return result;
}

}  // namespace starling::optim
