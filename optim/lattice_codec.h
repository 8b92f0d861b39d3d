// The bodies (payload without header) of PUSH and DELTA in the formats mod8 and mod4: stripes as
// blocks of lattice codes (optim/lattice.h). Used by optim/fragment_codec.h only.
//
//   PUSH    checksum u32 per block | exponent i8 per block | codes, packed per block
//   DELTA   bit per block, set: skipped | exponent i8 per block | differences, packed per block
//
// A block is skipped (difference zero) where its checksum shows a wrapped difference or where this
// side's weights have no coordinate. Little-endian, unaligned. Bodies have exactly the size of
// push_body_bytes() and delta_body_bytes() when they come here.
// Errors: kCorrupt for this peer's own weights, kProtocol for the other's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "optim/wire_format.h"

namespace starling::optim::lattice_codec {

std::size_t push_body_bytes(WireFormat format, std::size_t parameters);
std::size_t delta_body_bytes(WireFormat format, std::size_t parameters);

// What a DELTA body says, in units of weights and before the clip factor.
struct Summary {
  double sum_of_squares = 0.0;
  double max_abs = 0.0;
  std::uint32_t blocks_skipped = 0;
};

Status encode_push(WireFormat format, std::uint64_t key, std::span<const float> slow,
                   std::span<const std::int8_t> exponents, std::span<std::byte> body);

Result<Summary> make_delta(WireFormat format, std::uint64_t key, std::span<const std::byte> push,
                           std::span<const float> slow, std::span<std::byte> delta);

// difference = clip_factor * step * code. `skipped_reach`: empty, or per block zero, or for a
// skipped block the largest difference its lattice could carry.
Result<Summary> decode_delta(WireFormat format, float clip_factor, std::span<const std::byte> delta,
                             std::span<float> difference, std::span<float> skipped_reach);

}  // namespace starling::optim::lattice_codec
