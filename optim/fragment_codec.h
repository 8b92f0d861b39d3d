// The codec of an exchange: one stripe of slow weights to bytes, and two stripes to one difference.
//
//   initiator   encode_push(own slow)                      -> PUSH payload
//   responder   make_delta(PUSH, own slow)                 -> DELTA payload
//   both        decode_delta(DELTA)                        -> D ~ slow_responder - slow_initiator
//
// The DELTA bytes are the definition of D: both sides decode the same bytes to the same floats, so
// what one adds and the other subtracts is exactly opposite. The responder alone clips: D is scaled
// down so that its root mean square is at most the radius (He, Karimireddy, Jaggi,
// "Byzantine-robust decentralized learning via ClippedGossip", 2022, section 4).
//
// A payload is a header of kPayloadHeaderBytes and a body (optim/plain_codec.h, lattice_codec.h):
//   format u8 | version u8 = 1 | reserved u16 = 0 | parameters u32 | clip factor f32 (PUSH: 1)
// Little-endian. Length is exact for (format, parameters).
//
// `key` names the dither: the same on both sides, fresh for every stripe of every exchange.
// Errors: kProtocol where received bytes are malformed or lead to a value that is not finite,
// kCorrupt where this peer's own weights are unusable; outputs then hold nothing of use. Received
// bytes are hostile; the sizes of spans are the caller's duty (assertions).
// Thread: any; no state. Cost: linear, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "optim/stripe_sums.h"
#include "optim/wire_format.h"

namespace starling::optim {

inline constexpr std::size_t kPayloadHeaderBytes = 12;

// Exact sizes; 1 <= parameters <= kStripeParameters.
std::size_t push_bytes(WireFormat format, std::size_t parameters);
std::size_t delta_bytes(WireFormat format, std::size_t parameters);

// Of the difference, after clipping.
struct DeltaReport {
  double rms = 0.0;  // over all parameters, skipped blocks as zero
  double max_abs = 0.0;
  double own_rms = 0.0;      // of this peer's weights, where decode_delta was given them
  float clip_factor = 1.0f;  // in (0, 1]; 1: not clipped
  std::uint32_t blocks = 0;
  std::uint32_t blocks_skipped = 0;  // modular formats: differences beyond the range of the codes
  WireFormat format = WireFormat::kF32;
};

// `exponents`: one per block, from BlockScales::exponents for the same weights; ignored (may be
// empty) in f32 and bf16. `out` has push_bytes(format, slow.size()).
Status encode_push(WireFormat format, std::uint64_t key, std::span<const float> slow,
                   std::span<const std::int8_t> exponents, std::span<std::byte> out);

// The format of a received PUSH, from its header and length alone: what the responder needs to
// find out the size of its answer.
Result<WireFormat> push_format(std::span<const std::byte> push, std::size_t parameters);

// Likewise of a received DELTA.
Result<WireFormat> delta_format(std::span<const std::byte> delta, std::size_t parameters);

// `out` has delta_bytes(push_format(push), slow.size()). `clip_radius`: limit on the root mean
// square of the difference; not above zero: none. `blocks`: empty, or block_count(slow.size()), for
// BlockScales::observe. Reports say what decode_delta(out) will say, but for the rounding to bf16
// or f32 at the end.
Result<DeltaReport> make_delta(std::uint64_t key, std::span<const std::byte> push,
                               std::span<const float> slow, float clip_radius,
                               std::span<std::byte> out, std::span<BlockReport> blocks = {});

// Into `difference`, as large as the stripe. `blocks` as above. `slow`: this peer's weights, whose
// size is reported then; may be empty.
Result<DeltaReport> decode_delta(std::span<const std::byte> delta, std::span<float> difference,
                                 std::span<BlockReport> blocks = {},
                                 std::span<const float> slow = {});

}  // namespace starling::optim
