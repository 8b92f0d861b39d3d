// exp for vectorized loops: branch-free float arithmetic the compiler turns into any vector width,
// with the same bits in each, unless it fuses products with sums. Relative error below 3e-7 for |x|
// <= 87; beyond, x is clamped, so the result stays finite and positive. Arithmetic's NaN stays one.
//
// exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2) / 2; ln 2 is subtracted in two parts
// (Cody, Waite, "Software Manual for the Elementary Functions", 1980, chapter 6), and exp(r) is 1 +
// r + r^2 q(r), where q of degree 3 was fitted to the least relative error: 1.1e-7 with these
// coefficients.
#pragma once

#include <bit>
#include <cstdint>

namespace starling::model {

[[gnu::always_inline]] inline float vector_exp(float x) {
  constexpr float kLimit = 87.0F;
  constexpr float kRounder = 12582912.0F;   // 1.5 * 2^23: adding it rounds to the nearest integer
  constexpr float kLn2High = 0x1.62e4p-1F;  // 15 significant bits: its product with n is exact
  constexpr float kLn2Low = 0x1.7f7d1cp-20F;
  x = x < -kLimit ? -kLimit : x;
  x = x > kLimit ? kLimit : x;
  const float shifted = x * 0x1.715476p+0F + kRounder;
  const float n = shifted - kRounder;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float sum = 0x1.10627ap-7F;
  sum = sum * r + 0x1.572a08p-5F;
  sum = sum * r + 0x1.5557aep-3F;
  sum = sum * r + 0x1.fffdfcp-2F;
  sum = sum * r + 1.0F;
  sum = sum * r + 1.0F;
  // The low bits of `shifted` hold n: moved into the exponent's place, they multiply by 2^n.
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(sum) +
                              (std::bit_cast<std::uint32_t>(shifted) << 23));
}

}  // namespace starling::model
