// WireFormat: how the weights of one stripe travel, and the sizes every part of the codec shares.
//
//   f32, bf16    the weights themselves; the difference is taken from the (rounded) weights
//   mod8, mod4   lattice coordinates modulo 2^8 or 2^4 with shared dither (optim/lattice.h)
//
// A stripe is a range of at most kStripeParameters parameters of one fragment: the unit of
// exchange. Blocks of kBlockParameters parameters share a step; the last one may be shorter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace starling::optim {

enum class WireFormat : std::uint8_t { kF32 = 0, kBf16 = 1, kMod8 = 2, kMod4 = 3 };

inline constexpr std::size_t kBlockParameters = 1024;
inline constexpr std::size_t kStripeParameters = std::size_t{1} << 18;
inline constexpr std::size_t kStripeBlocks = kStripeParameters / kBlockParameters;

// "f32", "bf16", "mod8", "mod4": the words of configuration files.
std::string_view to_string(WireFormat format);
std::optional<WireFormat> parse_wire_format(std::string_view text);

constexpr bool is_modular(WireFormat format) {
  return format == WireFormat::kMod8 || format == WireFormat::kMod4;
}
// Bits per parameter, without header, exponents and checksums.
constexpr int code_bits(WireFormat format) {
  switch (format) {
    case WireFormat::kF32: return 32;
    case WireFormat::kBf16: return 16;
    case WireFormat::kMod8: return 8;
    case WireFormat::kMod4: return 4;
  }
  return 0;
}
// The largest difference a modular code can carry, in steps: L/2 - 1.
constexpr int largest_code(WireFormat format) {
  return is_modular(format) ? (1 << (code_bits(format) - 1)) - 1 : 0;
}

constexpr std::size_t block_count(std::size_t parameters) {
  return (parameters + kBlockParameters - 1) / kBlockParameters;
}

}  // namespace starling::optim
