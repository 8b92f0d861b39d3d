// bf16: the upper 16 bits of a float. Storage only; arithmetic is done in float.
// Rounding is to nearest, ties to even; a NaN stays a (quiet) NaN.
#pragma once

#include <bit>
#include <cstdint>

#include "base/host_device.h"

namespace starling {

struct bf16 {
  std::uint16_t bits = 0;
};
static_assert(sizeof(bf16) == 2);

STARLING_HD constexpr float to_float(bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

STARLING_HD constexpr bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x0040U)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

}  // namespace starling
