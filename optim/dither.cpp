// draw_words, which most of the time of a modular code goes to. Philox multiplies halves of 64-bit
// words, for which processors have an instruction that compilers do not find by themselves: they
// are told, for the widths that have been worth it. Integers: the same words everywhere.
#include "optim/lattice.h"
#include "optim/philox.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace starling::optim {

namespace {

// Philox counters of one block; word w of counter j belongs to parameter kCounters * w + j, so
// that the loop over counters writes four contiguous rows.
constexpr std::size_t kCounters = kBlockParameters / 4;

void draw_each(std::uint64_t key, std::uint32_t block, BlockWords& words) {
  const std::uint64_t first_counter = std::uint64_t{block} * kCounters;
  for (std::size_t j = 0; j < kCounters; ++j) {
    const PhiloxBlock drawn = philox(key, first_counter + j);
    for (std::size_t w = 0; w < 4; ++w) words[kCounters * w + j] = drawn[w];
  }
}

#ifdef __x86_64__

// Of optim/philox.h. Words are the lower halves of 64 bits; what stands above is never looked at.
struct Round {
  std::uint32_t key0, key1;

  void next() {
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
};

constexpr long long kMultiplier0 = 0xD2511F53;
constexpr long long kMultiplier1 = 0xCD9E8D57;

// Four times eight counters side by side: a round waits for its products, and another one can use
// that time.
__attribute__((target("avx512f"))) void draw_thirty_two(std::uint64_t key, std::uint32_t block,
                                                        BlockWords& words) {
  constexpr std::size_t kSide = 4;
  const __m512i multiplier0 = _mm512_set1_epi64(kMultiplier0);
  const __m512i multiplier1 = _mm512_set1_epi64(kMultiplier1);
  const __m512i steps = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
  for (std::size_t j = 0; j < kCounters; j += 8 * kSide) {
    __m512i x0[kSide], x1[kSide], x2[kSide], x3[kSide];
#pragma GCC unroll 4
    for (std::size_t n = 0; n < kSide; ++n) {
      const auto first = static_cast<long long>(std::uint64_t{block} * kCounters + j + 8 * n);
      x0[n] = _mm512_add_epi64(_mm512_set1_epi64(first), steps);
      x1[n] = _mm512_srli_epi64(x0[n], 32);
      x2[n] = x3[n] = _mm512_setzero_si512();
    }
    Round round{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
    for (int i = 0; i < 10; ++i, round.next()) {
      const __m512i key0 = _mm512_set1_epi64(round.key0);
      const __m512i key1 = _mm512_set1_epi64(round.key1);
#pragma GCC unroll 4
      for (std::size_t n = 0; n < kSide; ++n) {
        const __m512i product0 = _mm512_mul_epu32(multiplier0, x0[n]);
        const __m512i product1 = _mm512_mul_epu32(multiplier1, x2[n]);
        x0[n] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product1, 32), x1[n], key0, 0x96);
        x2[n] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product0, 32), x3[n], key1, 0x96);
        x1[n] = product1;
        x3[n] = product0;
      }
    }
#pragma GCC unroll 4
    for (std::size_t n = 0; n < kSide; ++n) {
      const __m512i drawn[4] = {x0[n], x1[n], x2[n], x3[n]};
      for (std::size_t w = 0; w < 4; ++w) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(words.data() + kCounters * w + j + 8 * n),
                            _mm512_cvtepi64_epi32(drawn[w]));
      }
    }
  }
}

__attribute__((target("avx2"))) void draw_four(std::uint64_t key, std::uint32_t block,
                                               BlockWords& words) {
  const __m256i multiplier0 = _mm256_set1_epi64x(kMultiplier0);
  const __m256i multiplier1 = _mm256_set1_epi64x(kMultiplier1);
  const __m256i steps = _mm256_set_epi64x(3, 2, 1, 0);
  const __m256i lower_halves = _mm256_set_epi32(7, 5, 3, 1, 6, 4, 2, 0);
  for (std::size_t j = 0; j < kCounters; j += 4) {
    const auto first = static_cast<long long>(std::uint64_t{block} * kCounters + j);
    __m256i x0 = _mm256_add_epi64(_mm256_set1_epi64x(first), steps);
    __m256i x1 = _mm256_srli_epi64(x0, 32);
    __m256i x2 = _mm256_setzero_si256();
    __m256i x3 = x2;
    Round round{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
    for (int i = 0; i < 10; ++i, round.next()) {
      const __m256i product0 = _mm256_mul_epu32(multiplier0, x0);
      const __m256i product1 = _mm256_mul_epu32(multiplier1, x2);
      x0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), x1),
                            _mm256_set1_epi64x(round.key0));
      x2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), x3),
                            _mm256_set1_epi64x(round.key1));
      x1 = product1;
      x3 = product0;
    }
    const __m256i drawn[4] = {x0, x1, x2, x3};
    for (std::size_t w = 0; w < 4; ++w) {
      const __m256i packed = _mm256_permutevar8x32_epi32(drawn[w], lower_halves);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(words.data() + kCounters * w + j),
                       _mm256_castsi256_si128(packed));
    }
  }
}

#endif

}  // namespace

std::vector<DrawWords> ways_to_draw() {
  std::vector<DrawWords> ways;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) ways.push_back(draw_thirty_two);
  if (__builtin_cpu_supports("avx2")) ways.push_back(draw_four);
#endif
  ways.push_back(draw_each);
  return ways;
}

void draw_words(std::uint64_t key, std::uint32_t block, BlockWords& words) {
  static const DrawWords fastest = ways_to_draw().front();
  fastest(key, block, words);
}

}  // namespace starling::optim
