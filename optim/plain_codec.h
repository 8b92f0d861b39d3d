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
#include "optim/vector_math.h"
#include "optim/wire_format.h"

namespace starling::optim::plain_codec {

Status encode_push(WireFormat format, std::span<const float> slow, std::span<std::byte> body);

// difference = slow - pushed.
Result<VectorStats> subtract(WireFormat format, std::span<const std::byte> push,
                             std::span<const float> slow, std::span<float> difference);

// Writes clip_factor * difference, and leaves in `difference` what decode_delta makes of that.
Result<VectorStats> write_delta(WireFormat format, float clip_factor, std::span<float> difference,
                                std::span<std::byte> body);

Result<VectorStats> decode_delta(WireFormat format, std::span<const std::byte> body,
                                 std::span<float> difference);

}  // namespace starling::optim::plain_codec
