// The bodies (payload without header) of PUSH and DELTA in the modular formats: stripes as blocks
// of lattice codes (optim/lattice.h). Used by optim/fragment_codec.h only.
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
#include "optim/stripe_sums.h"
#include "optim/wire_format.h"

namespace starling::optim::lattice_codec {

std::size_t push_body_bytes(WireFormat format, std::size_t parameters);
std::size_t delta_body_bytes(WireFormat format, std::size_t parameters);

Status encode_push(WireFormat format, std::uint64_t key, std::span<const float> slow,
                   std::span<const std::int8_t> exponents, std::span<std::byte> body);

// The sums describe the difference before clipping. `blocks`: empty, or one for each block.
Result<StripeSums> make_delta(WireFormat format, std::uint64_t key, std::span<const std::byte> push,
                              std::span<const float> slow, std::span<std::byte> delta,
                              std::span<BlockReport> blocks);

// Writes difference = clip_factor * step * code; the sums describe it as written. `slow`: empty
// where nobody asks for its sum.
Result<StripeSums> decode_delta(WireFormat format, float clip_factor,
                                std::span<const std::byte> delta, std::span<const float> slow,
                                std::span<float> difference, std::span<BlockReport> blocks);

}  // namespace starling::optim::lattice_codec
