#include "model/cpu/gemm_kernels.h"

#if defined(STARLING_X86)

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "model/cpu/avx512_vectors.h"
#include "tests/support/worst.h"

namespace starling::model {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

bool has_vectors() {
  if (!gemm_kernels().empty()) return true;
  MESSAGE("skipped: this processor has no AVX-512 BF16");
  return false;
}

STARLING_AVX512_BF16 float exp2_once(float x) {
  return _mm512_cvtss_f32(vectors::exp2_of(_mm512_set1_ps(x)));
}
STARLING_AVX512_BF16 float sigmoid_once(float x) {
  return _mm512_cvtss_f32(vectors::sigmoid(_mm512_set1_ps(x)));
}

// The largest relative error of values from `-limit` to `limit`.
template <class Function, class Exact>
double worst_of(float limit, const Function& function, const Exact& exact) {
  double worst = 0;
  for (int i = -100'000; i <= 100'000; ++i) {
    const float x = limit * static_cast<float>(i) / 100'000.0F;
    const double expected = exact(static_cast<double>(x));
    testing::note_worst(worst, std::abs(function(x) / expected - 1.0));
  }
  return worst;
}

// The first `there` of 16 values, rounded into memory that holds others, and what is read of them.
STARLING_AVX512_BF16 void round_some(const float* values, std::int64_t there, bf16* rounded,
                                     float* read) {
  const __mmask16 mask = vectors::first_words(there);
  vectors::store(rounded, mask, vectors::load(values, mask));
  vectors::store(read, mask, vectors::load(rounded, mask));
}

}  // namespace

TEST_CASE("powers of two in vectors") {
  if (!has_vectors()) return;
  CHECK(worst_of(125.0F, exp2_once, [](double x) { return std::exp2(x); }) < 3e-7);
  CHECK(exp2_once(0.0F) == 1.0F);
  CHECK(exp2_once(-10.0F) == 0x1p-10F);
  CHECK(exp2_once(1000.0F) == kInfinity);
  CHECK(exp2_once(-1000.0F) == 0.0F);
  CHECK(std::isnan(exp2_once(kNan)));
}

TEST_CASE("sigmoids in vectors") {
  if (!has_vectors()) return;
  CHECK(worst_of(20.0F, sigmoid_once, [](double x) { return 1.0 / (1.0 + std::exp(-x)); }) < 2e-6);
  CHECK(sigmoid_once(0.0F) == 0.5F);
  CHECK(sigmoid_once(3e38F) == 1.0F);
  CHECK(sigmoid_once(-3e38F) >= 0.0F);
  CHECK(sigmoid_once(-3e38F) < 1e-37F);
  CHECK(std::isnan(sigmoid_once(kNan)));
}

TEST_CASE("vectors round as to_bf16() does, and only what is there") {
  if (!has_vectors()) return;
  // Ties to even on both sides, and neither.
  const float of[] = {1.0F, 0x1.01p0F, 0x1.03p0F, 0x1.0101p0F, -0x1.03p0F, kInfinity, 3.3e38F};
  for (std::int64_t there = 0; there <= 16; ++there) {
    float values[16], read[16];
    bf16 halves[16];
    for (std::size_t i = 0; i < 16; ++i) {
      values[i] = of[i % std::size(of)];
      halves[i] = to_bf16(-7.0F);
      read[i] = -7.0F;
    }
    round_some(values, there, halves, read);
    for (std::size_t i = 0; i < 16; ++i) {
      const bf16 expected = to_bf16(i < static_cast<std::size_t>(there) ? values[i] : -7.0F);
      CHECK(halves[i].bits == expected.bits);
      CHECK(read[i] == to_float(expected));
    }
  }
}

}  // namespace starling::model

#endif
