// The kernel of AVX-512 BF16: 14 rows of 32 sums stay in 28 registers while one pair of the depth
// after the other is multiplied in; the registers that are left hold the operands.
#include "model/cpu/gemm_kernels.h"

#if defined(STARLING_X86)

#include <array>
#include <utility>

#include "model/cpu/gemm_vectors.h"

namespace starling::model {

namespace {

using namespace vectors;

constexpr std::int64_t kRows = 14;
constexpr std::int64_t kSlots = 16;

void nothing() {}

STARLING_AVX512_BF16 [[gnu::always_inline]] inline __m512 add_products(__m512 sum,
                                                                       std::uint32_t left,
                                                                       __m512i right) {
  const __m512i repeated = _mm512_set1_epi32(static_cast<int>(left));
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(repeated),
                          reinterpret_cast<__m512bh>(right));
}

template <int kCount>
STARLING_AVX512_BF16 void multiply_rows(const std::uint32_t* left, const std::uint32_t* right,
                                        std::int64_t words, const TileRows& tile) {
  __m512 sums[kCount][2];
#pragma GCC unroll 14
  for (int row = 0; row < kCount; ++row) sums[row][0] = sums[row][1] = _mm512_setzero_ps();
  for (std::int64_t word = 0; word < words; ++word) {
    const __m512i low = _mm512_load_si512(right);
    const __m512i high = _mm512_load_si512(right + kWords);
#pragma GCC unroll 14
    for (int row = 0; row < kCount; ++row) {
      sums[row][0] = add_products(sums[row][0], left[row], low);
      sums[row][1] = add_products(sums[row][1], left[row], high);
    }
    left += kSlots;
    right += kPanelColumns;
  }
#pragma GCC unroll 14
  for (int row = 0; row < kCount; ++row) {
    _mm512_storeu_ps(tile.sums + row * tile.stride, sums[row][0]);
    _mm512_storeu_ps(tile.sums + row * tile.stride + kWords, sums[row][1]);
  }
}

using RowsFunction = void (*)(const std::uint32_t*, const std::uint32_t*, std::int64_t,
                              const TileRows&);

template <std::size_t... kLast>
constexpr std::array<RowsFunction, sizeof...(kLast)> row_functions(std::index_sequence<kLast...>) {
  return {&multiply_rows<static_cast<int>(kLast) + 1>...};
}

void multiply(const LeftPanel& left, const void* right, std::int64_t depth, const TileRows& tile) {
  static constexpr auto kFunctions = row_functions(std::make_index_sequence<kRows>());
  kFunctions[static_cast<std::size_t>(tile.rows - 1)](static_cast<const std::uint32_t*>(left.data),
                                                      static_cast<const std::uint32_t*>(right),
                                                      (depth + 1) / 2, tile);
}

}  // namespace

const GemmKernel kAvx512Bf16 = {
    .name = "AVX-512 BF16",
    .left_rows = kRows,
    .slots = kSlots,
    .depth_step = 2,
    .reads_rows = false,
    .pack_left = pack_words<RoundedWords, kRows, kSlots, 2>,
    .pack_left_bf16 = pack_words<Bf16Words, kRows, kSlots, 2>,
    .pack_right = pack_words<RoundedWords, kPanelColumns, kPanelColumns, 2>,
    .pack_right_bf16 = pack_words<Bf16Words, kPanelColumns, kPanelColumns, 2>,
    .begin = nothing,
    .end = nothing,
    .multiply = multiply,
};

}  // namespace starling::model

#endif
