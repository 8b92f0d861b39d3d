// GemmKernel: the innermost part of a matrix product of bf16, for one instruction set: a tile of
// sums from two packed panels, on one thread (the "micro-kernel" of Goto, van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication", ACM TOMS 34(3), 2008). packed_gemm.h makes products of
// it.
//
//   tile[r][c] = sum over k of left(r, k) * right(c, k), in float
//
// Operands are rounded to bf16 as they are packed, products are exact and summed in float. Panels
// are padded: one of the left has `left_rows` rows, one of the right kPanelColumns columns, and the
// depth is rounded up to `depth_step`; what lies beyond the operand is zero. How a panel is laid
// out is the kernel's business, but for one of the right, which goes along the depth: behind the
// first right_depth_bytes(k), k a multiple of depth_step, is that of the depth from k on. That it
// is aligned to 64 bytes is the caller's. Like the processors' instructions, kernels take numbers
// below the smallest normal one for zero. Thread: any; a kernel is immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bf16.h"

namespace starling::model {

inline constexpr std::int64_t kPanelColumns = 32;

constexpr std::size_t right_depth_bytes(std::int64_t depth) {
  return static_cast<std::size_t>(depth * kPanelColumns) * sizeof(bf16);
}

// What an operand is packed from: value (i, k) is data[i * stride + k], or data[k * stride + i] if
// it is transposed.
template <class T>
struct PanelSource {
  const T* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;

  PanelSource at(std::int64_t i, std::int64_t k) const {
    return {data + (transposed ? k * stride + i : i * stride + k), stride, transposed};
  }
};

// Rows of the operand (columns, for the right one), and depth.
struct PanelSize {
  std::int64_t count = 0, depth = 0;
};

struct LeftPanel {
  const void* data = nullptr;
  std::int64_t stride = 0;  // bytes from row to row; only for kernels that read rows
};

// Where sums go: kPanelColumns floats in each of `rows` <= left_rows rows, which are set. A
// kernel of whole tiles writes all left_rows rows, so there must be room for them.
struct TileRows {
  float* sums = nullptr;
  std::int64_t stride = 0;  // floats from row to row
  std::int64_t rows = 0;
};

struct GemmKernel {
  const char* name;
  std::int64_t left_rows;   // of a panel, and of a tile
  std::int64_t slots;       // packed rows of a left panel: left_rows, and what aligns them
  std::int64_t depth_step;  // the depth is a multiple of it
  bool reads_rows;          // rows of bf16 as they lie in memory will do as a left panel

  // One panel of at most left_rows rows, or kPanelColumns columns; or of more several, one after
  // the other, for which a kernel need not read a transposed operand again each time.
  void (*pack_left)(void* panel, const PanelSource<float>& source, PanelSize size);
  void (*pack_left_bf16)(void* panel, const PanelSource<bf16>& source, PanelSize size);
  void (*pack_right)(void* panel, const PanelSource<float>& source, PanelSize size);
  void (*pack_right_bf16)(void* panel, const PanelSource<bf16>& source, PanelSize size);

  // Around calls of multiply() on one thread: the state that some processors need.
  void (*begin)();
  void (*end)();
  void (*multiply)(const LeftPanel& left, const void* right, std::int64_t depth,
                   const TileRows& tile);

  std::int64_t padded_depth(std::int64_t depth) const {
    return (depth + depth_step - 1) / depth_step * depth_step;
  }
  std::size_t left_bytes(std::int64_t depth) const {
    return static_cast<std::size_t>(padded_depth(depth) * slots) * sizeof(bf16);
  }
  std::size_t right_bytes(std::int64_t depth) const {
    return right_depth_bytes(padded_depth(depth));
  }
};

// All that this machine can execute, the better ones last; often none.
std::span<const GemmKernel* const> gemm_kernels();

// Whether the last of them is faster than products of floats.
bool last_kernel_is_faster();

}  // namespace starling::model
