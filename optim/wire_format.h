// WireFormat: how the weights of one stripe travel, and the sizes every part of the codec shares.
//
//   f32, bf16                the weights themselves; the difference is taken from the (rounded)
//                            weights
//   mod8, mod6, mod5, mod4   lattice coordinates modulo 2^8, 2^6, 2^5, 2^4 with shared dither
//                            (optim/lattice.h)
//
// A stripe is a range of at most kStripeParameters parameters of one fragment: the unit of
// exchange. Blocks of kBlockParameters parameters share a step; the last one may be shorter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace starling::optim {

// The numbers travel, so they never change. They have no gaps.
enum class WireFormat : std::uint8_t {
  kF32 = 0,
  kBf16 = 1,
  kMod8 = 2,
  kMod4 = 3,
  kMod6 = 4,
  kMod5 = 5
};
// All of them, from most to fewest bits.
inline constexpr std::array kWireFormats{WireFormat::kF32,  WireFormat::kBf16, WireFormat::kMod8,
                                         WireFormat::kMod6, WireFormat::kMod5, WireFormat::kMod4};

inline constexpr std::size_t kBlockParameters = 1024;
inline constexpr std::size_t kStripeParameters = std::size_t{1} << 18;

constexpr bool is_modular(WireFormat format) {
  return format != WireFormat::kF32 && format != WireFormat::kBf16;
}
// The words of configuration files.
constexpr std::string_view to_string(WireFormat format) {
  switch (format) {
    case WireFormat::kF32: return "f32";
    case WireFormat::kBf16: return "bf16";
    case WireFormat::kMod8: return "mod8";
    case WireFormat::kMod6: return "mod6";
    case WireFormat::kMod5: return "mod5";
    case WireFormat::kMod4: return "mod4";
  }
  return "unknown";
}
// Bits per parameter, without header, exponents and checksums.
constexpr int code_bits(WireFormat format) {
  switch (format) {
    case WireFormat::kF32: return 32;
    case WireFormat::kBf16: return 16;
    case WireFormat::kMod8: return 8;
    case WireFormat::kMod6: return 6;
    case WireFormat::kMod5: return 5;
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
