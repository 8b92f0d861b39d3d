// The kernel of AMX: a tile is 2 x 2 of the processor's tiles of 16 x 16 sums. The left operand is
// read as rows of bf16: one that is in bf16 already, in whole tiles, is not packed.
#include "model/cpu/gemm_kernels.h"

#if defined(STARLING_X86)

#include <sys/syscall.h>
#include <unistd.h>

#include "model/cpu/gemm_vectors.h"

#define STARLING_AMX [[gnu::target("amx-tile,amx-bf16,avx512f")]]

namespace starling::model {

namespace {

using namespace vectors;

constexpr std::int64_t kRows = 32;
constexpr std::int64_t kStep = 32;  // values of the depth that a tile holds

// Intel, "Architecture Instruction Set Extensions", chapter 3: palette 1, all eight tiles of 16
// rows of 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kTiles;

STARLING_AMX void begin() { _tile_loadconfig(&kTiles); }
STARLING_AMX void end() { _tile_release(); }

// 32 rows of 32 sums each; the intrinsics do not tell the compiler which memory they touch.
STARLING_AMX void multiply(const LeftPanel& left, const void* right, std::int64_t depth,
                           const TileRows& tile) {
  const auto* above = static_cast<const std::byte*>(left.data);
  const std::byte* below = above + 16 * left.stride;
  const auto* columns = static_cast<const std::byte*>(right);
  constexpr std::int64_t kRightStride = kPanelColumns * 4;
  float* sums = tile.sums;
  const std::int64_t stride = tile.stride * static_cast<std::int64_t>(sizeof(float));
  asm volatile("" ::: "memory");
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t k = 0; k < depth; k += kStep) {
    _tile_loadd(4, above, left.stride);
    _tile_loadd(6, columns, kRightStride);
    _tile_loadd(7, columns + 64, kRightStride);
    _tile_loadd(5, below, left.stride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    above += kStep * sizeof(bf16);
    below += kStep * sizeof(bf16);
    columns += 16 * kRightStride;
  }
  _tile_stored(0, sums, stride);
  _tile_stored(1, sums + 16, stride);
  _tile_stored(2, sums + 16 * tile.stride, stride);
  _tile_stored(3, sums + 16 * tile.stride + 16, stride);
  asm volatile("" ::: "memory");
}

// Rows of bf16, one after the other, padded with zeros: rows to whole panels, depth to kStep.
template <class Words>
STARLING_AVX512_BF16 void pack_rows(void* panel, const PanelSource<typename Words::Value>& source,
                                    PanelSize size) {
  const std::int64_t depth = (size.depth + kStep - 1) / kStep * kStep;
  const std::int64_t rows = (size.count + kRows - 1) / kRows * kRows;
  for (std::int64_t row = 0; row < rows; row += 16) {
    for (std::int64_t k = 0; k < depth; k += kStep) {
      __m512i lanes[16];
      const auto from = source.at(row, k);
      const PanelSize left{size.count - row, size.depth - k};
      if (source.transposed) {
        load_block<Words>(lanes, from, left);
        transpose(lanes);
      } else {
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {
          lanes[i] = i < left.count ? Words::along(from.data + i * from.stride, left.depth)
                                    : _mm512_setzero_si512();
        }
      }
      bf16* out = static_cast<bf16*>(panel) + row * depth + k;
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) _mm512_store_si512(out + i * depth, lanes[i]);
    }
  }
}

}  // namespace

const GemmKernel kAmxBf16 = {
    .name = "AMX",
    .left_rows = kRows,
    .slots = kRows,
    .depth_step = kStep,
    .reads_rows = true,
    .pack_left = pack_rows<RoundedWords>,
    .pack_left_bf16 = pack_rows<Bf16Words>,
    .pack_right = pack_words<RoundedWords, kPanelColumns, kPanelColumns, kStep>,
    .pack_right_bf16 = pack_words<Bf16Words, kPanelColumns, kPanelColumns, kStep>,
    .begin = begin,
    .end = end,
    .multiply = multiply,
};

bool request_amx() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // asm/prctl.h
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace starling::model

#endif
