// The bodies (payload without header) of PUSH and DELTA in the formats f32 and bf16: one float or
// bf16 per parameter, little-endian, unaligned. Used by optim/fragment_codec.h only.
//
// In bf16 the responder rounds its own weights too, so that equal weights differ by exactly zero.
// Bodies have exactly parameters * code_bits / 8 bytes when they come here. A value that is not
// finite is refused: kCorrupt if it is this peer's own, kProtocol if it is the other's.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "optim/stripe_sums.h"
#include "optim/wire_format.h"

namespace starling::optim::plain_codec {

Status encode_push(WireFormat format, std::span<const float> slow, std::span<std::byte> body);

// Writes slow - pushed; the sums describe this difference before it is rounded to the format.
// `blocks`: empty, or one for each block of the stripe.
Result<StripeSums> make_delta(WireFormat format, std::span<const std::byte> push,
                              std::span<const float> slow, std::span<std::byte> body,
                              std::span<BlockReport> blocks);

// Writes clip_factor * (slow - pushed), which make_delta() found sound.
void clip_delta(WireFormat format, float clip_factor, std::span<const std::byte> push,
                std::span<const float> slow, std::span<std::byte> body);

// The sums describe `difference` as written. `slow`: empty where nobody asks for its sum.
Result<StripeSums> decode_delta(WireFormat format, std::span<const std::byte> body,
                                std::span<const float> slow, std::span<float> difference,
                                std::span<BlockReport> blocks);

}  // namespace starling::optim::plain_codec
