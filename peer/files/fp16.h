// fp16: IEEE 754 binary16. Storage only; arithmetic is done in float. Rounding is to nearest, ties
// to even; what is too large becomes infinite; a NaN stays a (quiet) NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace starling::peer {

struct fp16 {
  std::uint16_t bits = 0;
};
static_assert(sizeof(fp16) == 2);

constexpr float to_float(fp16 value) {
  const std::uint32_t sign = (value.bits & 0x8000U) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1FU;
  const std::uint32_t fraction = value.bits & 0x3FFU;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;  // subnormal, or zero
  return sign == 0 ? magnitude : -magnitude;
}

constexpr fp16 to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const auto signed_bits = [sign](std::uint32_t rest) {
    return fp16{static_cast<std::uint16_t>(sign | rest)};
  };
  if (magnitude > 0x7F800000U) return signed_bits(0x7E00U | ((magnitude >> 13) & 0x3FFU));
  if (magnitude >= 0x477FF000U) return signed_bits(0x7C00U);  // 65520 and above round to infinity
  if (magnitude < 0x38800000U) {                              // below 2^-14: subnormal
    // Adding 1/2 makes the float's own rounding leave the wanted bits at its lower end.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return signed_bits(std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U);
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
  return signed_bits((rounded - 0x38000000U) >> 13);
}

}  // namespace starling::peer
