// What the kernels of AVX-512 share: the packing of operands as words of 32 bits, two bf16 that
// follow each other along the depth, and transposition of such words. For gemm_kernel_*.cpp only:
// every function needs a caller compiled for the same instructions.
#pragma once

#include "model/cpu/avx512_vectors.h"
#include "model/cpu/gemm_kernel.h"

namespace starling::model::vectors {

inline constexpr std::int64_t kValues = 2;  // of a word

inline __mmask32 first_halves(std::int64_t count) {
  return static_cast<__mmask32>((std::uint64_t{1} << std::clamp<std::int64_t>(count, 0, 32)) - 1U);
}

STARLING_AVX512 [[gnu::always_inline]] inline void transpose(__m512i (&rows)[16]) {
  __m512i half[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    half[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    half[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      rows[4 * i + 2 * j] = _mm512_unpacklo_epi64(half[4 * i + j], half[4 * i + 2 + j]);
      rows[4 * i + 2 * j + 1] = _mm512_unpackhi_epi64(half[4 * i + j], half[4 * i + 2 + j]);
    }
  }
  // Now rows[4 * i + j] holds, in its lane l of 128 bits, column 4 * l + j of rows 4 * i to + 3.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    half[j] = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0x88);
    half[4 + j] = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0xdd);
    half[8 + j] = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0x88);
    half[12 + j] = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0xdd);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    rows[j] = _mm512_shuffle_i32x4(half[j], half[8 + j], 0x88);
    rows[8 + j] = _mm512_shuffle_i32x4(half[j], half[8 + j], 0xdd);
    rows[4 + j] = _mm512_shuffle_i32x4(half[4 + j], half[12 + j], 0x88);
    rows[12 + j] = _mm512_shuffle_i32x4(half[4 + j], half[12 + j], 0xdd);
  }
}

// Words of one value from the lower half of a vector, and one from the upper.
STARLING_AVX512 [[gnu::always_inline]] inline __m512i in_pairs(__m512i halves) {
  // Word i has value i, and 16 + i above it.
  const __m512i words = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i upper = _mm512_slli_epi32(_mm512_add_epi32(words, _mm512_set1_epi32(16)), 16);
  const __m512i places = _mm512_or_si512(words, upper);
  return _mm512_permutexvar_epi16(places, halves);
}

// How words come from memory: floats, which are rounded, or bf16. along(): 16 words of one row,
// which follow each other along the depth, of which `values` values are there. across(): one word
// each of `columns` <= 16 columns, of operands stored depth by depth; `next` is false where the
// depth ends within the word.
struct RoundedWords {
  using Value = float;

  STARLING_AVX512_BF16 [[gnu::always_inline]] static __m512i along(const float* row,
                                                                   std::int64_t values) {
    const __m512 low = _mm512_maskz_loadu_ps(first_words(values), row);
    const __m512 high = _mm512_maskz_loadu_ps(first_words(values - 16), row + 16);
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  }
  STARLING_AVX512_BF16 [[gnu::always_inline]] static __m512i across(const float* at,
                                                                    std::int64_t stride,
                                                                    std::int64_t columns,
                                                                    bool next) {
    const __mmask16 mask = first_words(columns);
    const __m512 first = _mm512_maskz_loadu_ps(mask, at);
    const __m512 second = _mm512_maskz_loadu_ps(next ? mask : __mmask16{0}, at + stride);
    return in_pairs(reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first)));
  }
};

struct Bf16Words {
  using Value = bf16;

  STARLING_AVX512 [[gnu::always_inline]] static __m512i along(const bf16* row,
                                                              std::int64_t values) {
    return _mm512_maskz_loadu_epi16(first_halves(values), row);
  }
  STARLING_AVX512 [[gnu::always_inline]] static __m512i across(const bf16* at, std::int64_t stride,
                                                               std::int64_t columns, bool next) {
    const __mmask16 mask = first_words(columns);
    const __m256i first = _mm256_maskz_loadu_epi16(mask, at);
    const __m256i second = _mm256_maskz_loadu_epi16(next ? mask : __mmask16{0}, at + stride);
    return in_pairs(_mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1));
  }
};

// Words of 16 rows from `source` on, 16 along the depth: lanes[i] is word i of every row.
template <class Words>
STARLING_AVX512_BF16 [[gnu::always_inline]] inline void load_block(
    __m512i (&lanes)[16], const PanelSource<typename Words::Value>& source, PanelSize left) {
  if (source.transposed) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const std::int64_t k = i * kValues;
      lanes[i] = k < left.depth ? Words::across(source.data + k * source.stride, source.stride,
                                                left.count, k + 1 < left.depth)
                                : _mm512_setzero_si512();
    }
    return;
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    lanes[i] = i < left.count ? Words::along(source.data + i * source.stride, left.depth)
                              : _mm512_setzero_si512();
  }
  transpose(lanes);
}

// Panels of kRows, one after the other, each panel[word][slot], `slots` words from one to the next.
// Along the depth first: where that is from line to line, all panels take what they need of a line
// while it is near.
template <class Words, std::int64_t kRows, std::int64_t kSlots, std::int64_t kStep>
STARLING_AVX512_BF16 void pack_words(void* panels, const PanelSource<typename Words::Value>& source,
                                     PanelSize size) {
  const std::int64_t words = (size.depth + kStep - 1) / kStep * kStep / kValues;
  for (std::int64_t word = 0; word < words; word += kWords) {
    const std::int64_t k = word * kValues;
    const auto rows = static_cast<int>(std::min(kWords, words - word));
    auto* out = static_cast<std::uint32_t*>(panels) + word * kSlots;
    for (std::int64_t first = 0; first == 0 || first < size.count; first += kRows) {
      const std::int64_t count = std::min(kRows, size.count - first);
      for (std::int64_t slot = 0; slot < kSlots; slot += kWords) {
        __m512i lanes[16];
        load_block<Words>(lanes, source.at(first + slot, k), {count - slot, size.depth - k});
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {
          if (i < rows) _mm512_store_si512(out + i * kSlots + slot, lanes[i]);
        }
      }
      out += words * kSlots;
    }
  }
}

}  // namespace starling::model::vectors
