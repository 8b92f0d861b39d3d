// Vectors of AVX-512 for hand-written loops: 16 floats, or 16 bf16 that are floats in between, of
// which some at the end may not be there, and what those loops compute of them. Every function
// needs a caller compiled for the same instructions. For gemm_vectors.h and *_avx512.cpp only.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "base/bf16.h"

#define STARLING_AVX512 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]]
#define STARLING_AVX512_BF16 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]]

namespace starling::model::vectors {

inline constexpr std::int64_t kWords = 16;  // of 32 bits in a vector

// The first `count` lanes, none to all. By branches: mostly all are there.
inline __mmask16 first_words(std::int64_t count) {
  if (count >= kWords) return 0xFFFF;
  return count <= 0 ? __mmask16{0} : static_cast<__mmask16>((1U << count) - 1U);
}

STARLING_AVX512_BF16 [[gnu::always_inline]] inline __m256i rounded(__m512 values) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values));
}
STARLING_AVX512 [[gnu::always_inline]] inline __m512 widened(__m256i halves) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

STARLING_AVX512 [[gnu::always_inline]] inline __m512 load(const float* from, __mmask16 there) {
  return _mm512_maskz_loadu_ps(there, from);
}
STARLING_AVX512 [[gnu::always_inline]] inline __m512 load(const bf16* from, __mmask16 there) {
  return widened(_mm256_maskz_loadu_epi16(there, from));
}

STARLING_AVX512 [[gnu::always_inline]] inline void store(float* to, __mmask16 there,
                                                         __m512 values) {
  _mm512_mask_storeu_ps(to, there, values);
}
STARLING_AVX512 [[gnu::always_inline]] inline void store(bf16* to, __mmask16 there,
                                                         __m256i halves) {
  _mm256_mask_storeu_epi16(to, there, halves);
}
STARLING_AVX512_BF16 [[gnu::always_inline]] inline void store(bf16* to, __mmask16 there,
                                                              __m512 values) {
  store(to, there, rounded(values));
}

inline constexpr float kLn2 = 0x1.62e430p-1F, kLog2E = 0x1.715476p+0F;

// 2^x, with a relative error below 3e-7; infinity above 128, and zero far below -126. The
// polynomial is that of vector_exp() (cpu_exp.h) for x ln 2.
STARLING_AVX512 [[gnu::always_inline]] inline __m512 exp2_of(__m512 x) {
  constexpr int kNearest = 0x08;  // whole numbers, and no exceptions
  constexpr float kLn2Squared = kLn2 * kLn2;
  const __m512 whole = _mm512_roundscale_ps(x, kNearest);
  const __m512 rest = _mm512_sub_ps(x, whole);
  __m512 sum = _mm512_set1_ps(0x1.10627ap-7F * kLn2Squared * kLn2Squared * kLn2);
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(0x1.572a08p-5F * kLn2Squared * kLn2Squared));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(0x1.5557aep-3F * kLn2Squared * kLn2));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(0x1.fffdfcp-2F * kLn2Squared));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(kLn2));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1.0F));
  return _mm512_scalef_ps(sum, whole);
}

// 1 / (1 + exp(-x)), with a relative error below 2e-6 for |x| <= 20; never below 2^-126.
STARLING_AVX512 [[gnu::always_inline]] inline __m512 sigmoid(__m512 x) {
  // Of 2^126 the reciprocal is still a normal number. In this order NaN stays one.
  const __m512 most = _mm512_set1_ps(126.0F);
  const __m512 power = _mm512_min_ps(most, _mm512_mul_ps(x, _mm512_set1_ps(-kLog2E)));
  const __m512 sum = _mm512_add_ps(_mm512_set1_ps(1.0F), exp2_of(power));
  // One step of Newton's makes 14 bits 28.
  const __m512 guess = _mm512_rcp14_ps(sum);
  return _mm512_mul_ps(guess, _mm512_fnmadd_ps(sum, guess, _mm512_set1_ps(2.0F)));
}

}  // namespace starling::model::vectors
