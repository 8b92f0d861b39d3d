// Kernels of plain C++ for products of bf16 (gemm_kernel.h), so that all that is built on them is
// tested on processors without arithmetic for bf16. There is one of each form that the processors'
// kernels have: panels of pairs of the depth, and rows that are read where they lie.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "model/cpu/gemm_kernel.h"

namespace starling::model {

template <class T>
bf16 plain_value(const PanelSource<T>& source, std::int64_t i, std::int64_t k) {
  const T value = *source.at(i, k).data;
  if constexpr (std::is_same_v<T, bf16>)
    return value;
  else
    return to_bf16(value);
}

// Where a panel of `slots` has its value: pairs of the depth, slot by slot.
constexpr std::int64_t place_in_pairs(std::int64_t slot, std::int64_t k, std::int64_t slots) {
  return (k / 2 * slots + slot) * 2 + k % 2;
}

// Panel after panel.
template <class T, std::int64_t kRows, std::int64_t kSlots, std::int64_t kStep>
void pack_plain_panels(void* panels, const PanelSource<T>& source, PanelSize size) {
  auto* out = static_cast<bf16*>(panels);
  const std::int64_t depth = (size.depth + kStep - 1) / kStep * kStep;
  for (std::int64_t first = 0; first == 0 || first < size.count; first += kRows) {
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t slot = 0; slot < kSlots; ++slot) {
        const bool there = k < size.depth && slot < kRows && first + slot < size.count;
        out[place_in_pairs(slot, k, kSlots)] =
            there ? plain_value(source, first + slot, k) : bf16{};
      }
    }
    out += depth * kSlots;
  }
}

// Row after row, whole panels of them.
template <class T, std::int64_t kRows, std::int64_t kStep>
void pack_plain_rows(void* panels, const PanelSource<T>& source, PanelSize size) {
  auto* out = static_cast<bf16*>(panels);
  const std::int64_t depth = (size.depth + kStep - 1) / kStep * kStep;
  const std::int64_t rows = std::max(kRows, (size.count + kRows - 1) / kRows * kRows);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t k = 0; k < depth; ++k) {
      *out++ = row < size.count && k < size.depth ? plain_value(source, row, k) : bf16{};
    }
  }
}

// `place`: where the left panel has the value of a row and a depth.
template <class Place>
void multiply_plainly(const bf16* left, const Place& place, const bf16* right, std::int64_t depth,
                      const TileRows& tile) {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    float sums[kPanelColumns] = {};
    for (std::int64_t k = 0; k < depth; ++k) {
      const float value = to_float(left[place(row, k)]);
      for (std::int64_t i = 0; i < kPanelColumns; ++i) {
        sums[i] += value * to_float(right[place_in_pairs(i, k, kPanelColumns)]);
      }
    }
    std::copy_n(sums, kPanelColumns, tile.sums + row * tile.stride);
  }
}

inline void multiply_plain_panels(const LeftPanel& left, const void* right, std::int64_t depth,
                                  const TileRows& tile) {
  multiply_plainly(
      static_cast<const bf16*>(left.data),
      [](std::int64_t row, std::int64_t k) { return place_in_pairs(row, k, 16); },
      static_cast<const bf16*>(right), (depth + 1) / 2 * 2, tile);
}

// Of whole tiles: all rows are written.
inline void multiply_plain_rows(const LeftPanel& left, const void* right, std::int64_t depth,
                                const TileRows& tile) {
  const std::int64_t stride = left.stride / static_cast<std::int64_t>(sizeof(bf16));
  multiply_plainly(static_cast<const bf16*>(left.data),
                   [stride](std::int64_t row, std::int64_t k) { return row * stride + k; },
                   static_cast<const bf16*>(right), (depth + 31) / 32 * 32,
                   {tile.sums, tile.stride, 32});
}

inline constexpr GemmKernel kPlainPanels = {
    .name = "plain panels",
    .left_rows = 14,
    .slots = 16,
    .depth_step = 2,
    .reads_rows = false,
    .pack_left = pack_plain_panels<float, 14, 16, 2>,
    .pack_left_bf16 = pack_plain_panels<bf16, 14, 16, 2>,
    .pack_right = pack_plain_panels<float, kPanelColumns, kPanelColumns, 2>,
    .pack_right_bf16 = pack_plain_panels<bf16, kPanelColumns, kPanelColumns, 2>,
    .begin = [] {},
    .end = [] {},
    .multiply = multiply_plain_panels,
};

inline constexpr GemmKernel kPlainRows = {
    .name = "plain rows",
    .left_rows = 32,
    .slots = 32,
    .depth_step = 32,
    .reads_rows = true,
    .pack_left = pack_plain_rows<float, 32, 32>,
    .pack_left_bf16 = pack_plain_rows<bf16, 32, 32>,
    .pack_right = pack_plain_panels<float, kPanelColumns, kPanelColumns, 32>,
    .pack_right_bf16 = pack_plain_panels<bf16, kPanelColumns, kPanelColumns, 32>,
    .begin = [] {},
    .end = [] {},
    .multiply = multiply_plain_rows,
};

// These two, and all that this machine can execute.
inline std::vector<const GemmKernel*> kernels_to_test() {
  std::vector<const GemmKernel*> kernels{&kPlainPanels, &kPlainRows};
  kernels.insert(kernels.end(), gemm_kernels().begin(), gemm_kernels().end());
  return kernels;
}

}  // namespace starling::model
