// What the attention kernels on the tensor cores share: where heads lie, tiles in shared memory,
// and products of them by one warp (matrix_support.cuh has the layouts of fragments).
//
// A tile is rows of kWidth bf16, each kTilePad longer, so that eight rows at one column lie in
// different banks. A warp computes 16 rows of a result.
#pragma once

#include "cuda/matrix_support.cuh"

namespace starling::cuda {

inline constexpr unsigned kTilePad = 8;           // 16 bytes
inline constexpr float kLog2E = 1.442695040889F;  // exp(x) = exp2(x * kLog2E)

// HeadShape of model/layer_ops.h, for kernels.
struct Heads {
  std::int64_t tokens;  // of each sequence
  std::int64_t heads, kv_heads, width;

  __device__ std::int64_t packed_width() const { return (heads + 2 * kv_heads) * width; }
  __device__ std::int64_t group() const { return heads / kv_heads; }
};

// Consecutive rows of a head; `stride` elements from row to row.
template <class T>
struct HeadRows {
  T* first;
  std::int64_t stride;

  __device__ T* row(std::int64_t index) const { return first + index * stride; }
};

template <class T>
struct PackedHeads {
  HeadRows<T> queries, keys, values;  // of one query head and its key head
};
template <class T>
__device__ __forceinline__ PackedHeads<T> packed_heads(T* qkv, const Heads& of,
                                                       std::int64_t sequence, std::int64_t head) {
  const std::int64_t stride = of.packed_width(), key_head = head / of.group();
  T* first = qkv + sequence * of.tokens * stride;
  return {{first + head * of.width, stride},
          {first + (of.heads + key_head) * of.width, stride},
          {first + (of.heads + of.kv_heads + key_head) * of.width, stride}};
}
// Of `out` and its gradient.
template <class T>
__device__ __forceinline__ HeadRows<T> out_rows(T* out, const Heads& of, std::int64_t sequence,
                                                std::int64_t head) {
  const std::int64_t stride = of.heads * of.width;
  return {out + sequence * of.tokens * stride + head * of.width, stride};
}

// dots (sequences, heads, tokens) = rowsum(out_grad * out), a warp for each head of each token.
inline constexpr unsigned kRowDotsWarps = 4;
template <class T>
__global__ void __launch_bounds__(kRowDotsWarps* kWarp)
    row_dots_kernel(float* dots, const T* out_grad, const T* out, Heads heads, std::int64_t rows) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRowDotsWarps + warp_index();
  if (row >= rows) return;
  float sum = 0;
  for (std::int64_t i = lane_index(); i < heads.width; i += kWarp) {
    sum += load(out_grad + row * heads.width + i) * load(out + row * heads.width + i);
  }
  sum = warp_sum(sum);
  const std::int64_t token = row / heads.heads, head = row % heads.heads;
  if (lane_index() != 0) return;
  dots[(token / heads.tokens * heads.heads + head) * heads.tokens + token % heads.tokens] = sum;
}

template <unsigned kWidth>
struct Tile {
  static constexpr unsigned kStride = kWidth + kTilePad;
  static constexpr unsigned kFragments = kWidth / 8;

  bf16* data;

  static constexpr std::size_t bytes(unsigned rows) { return rows * kStride * sizeof(bf16); }

  // Rows first, first + 1, ... of `from`, by all threads of the block; rows past `end` become
  // zeros.
  template <unsigned kRows, unsigned kThreads>
  __device__ __forceinline__ void copy_rows(const HeadRows<const bf16>& from, std::int64_t first,
                                            std::int64_t end) const {
    constexpr unsigned kChunks = kWidth / 8;  // of 16 bytes
    for (unsigned i = threadIdx.x; i < kRows * kChunks; i += kThreads) {
      const unsigned row = i / kChunks, column = i % kChunks * 8;
      const bool exists = first + row < end;
      copy_async(data + row * kStride + column, from.row(exists ? first + row : 0) + column,
                 exists ? 16 : 0);
    }
  }

  // Rows `row` to row + 15 and columns `column` to column + 15, as a left factor.
  __device__ __forceinline__ FragmentA left(unsigned row, unsigned column) const {
    const unsigned lane = lane_index();
    FragmentA fragment;
    load_matrices(fragment.words, data + (row + lane % 16) * kStride + column + lane / 16 * 8);
    return fragment;
  }

  // A right factor is (depth 16, columns 16), as two fragments. Of the transposed tile: its rows
  // are the factor's columns.
  struct RightPair {
    FragmentB first, second;
  };
  __device__ __forceinline__ RightPair right_transposed(unsigned column, unsigned depth) const {
    const unsigned lane = lane_index();
    std::uint32_t words[4];
    load_matrices(words,
                  data + (column + lane % 8 + lane / 16 * 8) * kStride + depth + lane / 8 % 2 * 8);
    return {{{words[0], words[1]}}, {{words[2], words[3]}}};
  }
  __device__ __forceinline__ RightPair right(unsigned depth, unsigned column) const {
    const unsigned lane = lane_index();
    std::uint32_t words[4];
    load_matrices<true>(words, data + (depth + lane % 16) * kStride + column + lane / 16 * 8);
    return {{{words[0], words[1]}}, {{words[2], words[3]}}};
  }
};

// 16 rows of a head as left factors, straight from memory; rows from `end` on are zeros.
template <unsigned kWidth>
struct LeftRows {
  FragmentA at[kWidth / 16];

  __device__ __forceinline__ LeftRows(const HeadRows<const bf16>& from, std::int64_t first,
                                      std::int64_t end) {
    const unsigned group = lane_index() / 4, part = lane_index() % 4;
    STARLING_UNROLL
    for (unsigned step = 0; step < kWidth / 16; ++step) {
      STARLING_UNROLL
      for (unsigned word = 0; word < 4; ++word) {
        const std::int64_t row = first + group + word % 2 * 8;
        const unsigned column = step * 16 + word / 2 * 8 + part * 2;
        at[step].words[word] =
            row < end ? load_pack<1>(reinterpret_cast<const std::uint32_t*>(from.row(row) + column))
                            .values[0]
                      : 0;
      }
    }
  }
};

// sum (16, kColumns) += left * tile^T, the tile of kColumns rows.
template <unsigned kWidth, unsigned kColumns, class Left>
__device__ __forceinline__ void multiply_transposed(FragmentC (&sum)[kColumns / 8],
                                                    const Left& left, const Tile<kWidth>& tile) {
  STARLING_UNROLL
  for (unsigned step = 0; step < kWidth / 16; ++step) {
    const FragmentA factor = left(step);
    STARLING_UNROLL
    for (unsigned column = 0; column < kColumns; column += 16) {
      const auto right = tile.right_transposed(column, step * 16);
      multiply_add(sum[column / 8], factor, right.first);
      multiply_add(sum[column / 8 + 1], factor, right.second);
    }
  }
}

// Two neighbouring results (16, 8), rounded, as a left factor (16, 16).
__device__ __forceinline__ FragmentA as_left(const FragmentC& first, const FragmentC& second) {
  return {{pack_bf16(first.values[0], first.values[1]), pack_bf16(first.values[2], first.values[3]),
           pack_bf16(second.values[0], second.values[1]),
           pack_bf16(second.values[2], second.values[3])}};
}

// sum (16, kWidth) += left (16, kDepth) * tile, the tile of kDepth rows.
template <unsigned kWidth, unsigned kDepth>
__device__ __forceinline__ void multiply_rounded(FragmentC (&sum)[kWidth / 8],
                                                 const FragmentC (&left)[kDepth / 8],
                                                 const Tile<kWidth>& tile) {
  STARLING_UNROLL
  for (unsigned depth = 0; depth < kDepth; depth += 16) {
    const FragmentA factor = as_left(left[depth / 8], left[depth / 8 + 1]);
    STARLING_UNROLL
    for (unsigned column = 0; column < kWidth; column += 16) {
      const auto right = tile.right(depth, column);
      multiply_add(sum[column / 8], factor, right.first);
      multiply_add(sum[column / 8 + 1], factor, right.second);
    }
  }
}

// Stores one row of a result: `half` 0 is row group, 1 row group + 8; values are scaled.
template <unsigned kFragments>
__device__ __forceinline__ void store_row(bf16* row, const FragmentC (&result)[kFragments],
                                          unsigned half, float scale) {
  STARLING_UNROLL
  for (unsigned i = 0; i < kFragments; ++i) {
    const float* values = result[i].values + 2 * half;
    *reinterpret_cast<std::uint32_t*>(row + i * 8 + lane_index() % 4 * 2) =
        pack_bf16(values[0] * scale, values[1] * scale);
  }
}

}  // namespace starling::cuda
