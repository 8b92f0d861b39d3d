// What the attention kernels on the tensor cores share: where heads lie, tiles in shared memory,
// and products of them. A warp computes 16 rows of a result, alone (Multiplier::kOneWarp: any GPU
// since Ampere) or as one of the four of a warpgroup, which then all take part in each product
// (Multiplier::kWarpgroup: Hopper; warpgroup_support.cuh). Results lie in registers alike.
#pragma once

#include "cuda/warpgroup_support.cuh"

namespace starling::cuda {

inline constexpr float kLog2E = 1.442695040889F;  // exp(x) = exp2(x * kLog2E)

enum class Multiplier : unsigned char { kOneWarp, kWarpgroup };

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

// Rows first, first + 1, ... of `from` to a tile, by all threads of the block; rows past `end`
// become zeros.
template <unsigned kThreads, class Tile>
__device__ __forceinline__ void copy_rows(const Tile& tile, const HeadRows<const bf16>& from,
                                          int first, int end) {
  constexpr unsigned kRows = Tile::kRows, kChunks = Tile::kWidth / 8;  // of 16 bytes
  if constexpr (kThreads % kChunks == 0 && kRows * kChunks % kThreads == 0) {
    if (first + static_cast<int>(kRows) <= end) {
      constexpr unsigned kStep = kThreads / kChunks;
      const unsigned row = threadIdx.x / kChunks, column = threadIdx.x % kChunks * 8;
      const bf16* at = from.row(first + row) + column;
      STARLING_UNROLL
      for (unsigned i = 0; i < kRows; i += kStep) {
        copy_async(tile.at(row + i, column), at + i * from.stride);
      }
      return;
    }
  }
  for (unsigned i = threadIdx.x; i < kRows * kChunks; i += kThreads) {
    const unsigned row = i / kChunks, column = i % kChunks * 8;
    const bool exists = first + static_cast<int>(row) < end;
    copy_async(tile.at(row, column), from.row(exists ? first + row : 0) + column, exists ? 16 : 0);
  }
}

// For products of a warp: each row is 16 bytes longer, so that eight rows at one column lie in
// different banks.
template <unsigned kTileWidth, unsigned kTileRows>
struct PaddedTile {
  static constexpr unsigned kWidth = kTileWidth, kRows = kTileRows;
  static constexpr unsigned kStride = kWidth + 8;
  static constexpr std::size_t kBytes = kRows * kStride * sizeof(bf16);

  bf16* data;

  __device__ __forceinline__ bf16* at(unsigned row, unsigned column) const {
    return data + row * kStride + column;
  }
  // After a thread's copies, before the barrier.
  static __device__ __forceinline__ void publish() {}

  // Rows `row` to row + 15 and columns `column` to column + 15, as a left factor.
  __device__ __forceinline__ FragmentA left(unsigned row, unsigned column) const {
    const unsigned lane = lane_index();
    FragmentA fragment;
    load_matrices(fragment.words, at(row + lane % 16, column + lane / 16 * 8));
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
    load_matrices(words, at(column + lane % 8 + lane / 16 * 8, depth + lane / 8 % 2 * 8));
    return {{{words[0], words[1]}}, {{words[2], words[3]}}};
  }
  __device__ __forceinline__ RightPair right(unsigned depth, unsigned column) const {
    const unsigned lane = lane_index();
    std::uint32_t words[4];
    load_matrices<true>(words, at(depth + lane % 16, column + lane / 16 * 8));
    return {{{words[0], words[1]}}, {{words[2], words[3]}}};
  }
};

// For products of a warpgroup: panels of 64 columns, swizzled; aligned to 1024 bytes.
template <unsigned kTileWidth, unsigned kTileRows>
struct SwizzledTile {
  static constexpr unsigned kWidth = kTileWidth, kRows = kTileRows;
  static constexpr std::size_t kBytes = kRows * kWidth * sizeof(bf16);
  static_assert(kWidth % kGroupColumns == 0 && kRows % kGroupRows == 0);

  bf16* data;

  __device__ __forceinline__ bf16* at(unsigned row, unsigned column) const {
    const unsigned in_panel = column % kGroupColumns;
    return panel(row, column) + ((in_panel / 8 ^ row % 8) * 8 + in_panel % 8);
  }
  static __device__ __forceinline__ void publish() { publish_to_products(); }

  // Rows from `row` on, a multiple of 8, and 16 columns, or all of its panel.
  __device__ __forceinline__ SwizzledPart part(unsigned row, unsigned column) const {
    return {panel(row, column) + column % kGroupColumns};
  }

 private:
  __device__ __forceinline__ bf16* panel(unsigned row, unsigned column) const {
    return data + (column / kGroupColumns * kRows + row) * kGroupColumns;
  }
};

template <Multiplier kBy, unsigned kWidth, unsigned kRows>
struct TileOf {
  using Type = PaddedTile<kWidth, kRows>;
};
template <unsigned kWidth, unsigned kRows>
struct TileOf<Multiplier::kWarpgroup, kWidth, kRows> {
  using Type = SwizzledTile<kWidth, kRows>;
};

// 16 rows of a head as left factors, straight from memory; rows from `end` on are zeros.
template <unsigned kWidth>
struct LeftRows {
  FragmentA at[kWidth / 16];

  __device__ __forceinline__ LeftRows(const HeadRows<const bf16>& from, int first, int end) {
    const int group = static_cast<int>(lane_index() / 4);
    const unsigned part = lane_index() % 4;
    STARLING_UNROLL
    for (unsigned step = 0; step < kWidth / 16; ++step) {
      STARLING_UNROLL
      for (unsigned word = 0; word < 4; ++word) {
        const int row = first + group + static_cast<int>(word % 2 * 8);
        const unsigned column = step * 16 + word / 2 * 8 + part * 2;
        at[step].words[word] =
            row < end ? load_pack<1>(reinterpret_cast<const std::uint32_t*>(from.row(row) + column))
                            .values[0]
                      : 0;
      }
    }
  }
};

// Sums over the columns of left * right, of this lane's two rows; every lane of a row has them.
template <unsigned kWidth>
__device__ __forceinline__ void row_dots_of(float (&dots)[2], const LeftRows<kWidth>& left,
                                            const LeftRows<kWidth>& right) {
  STARLING_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    float sum = 0;
    STARLING_UNROLL
    for (unsigned step = 0; step < kWidth / 16; ++step) {
      STARLING_UNROLL
      for (unsigned word = half; word < 4; word += 2) {
        const auto a = unpack_bf16(left.at[step].words[word]);
        const auto b = unpack_bf16(right.at[step].words[word]);
        sum += a.values[0] * b.values[0] + a.values[1] * b.values[1];
      }
    }
    dots[half] = warp_sum<4>(sum);
  }
}

// This warp's 16 rows of a tile, or its warpgroup's 64, as left factors; from `row` on.
template <class Tile>
struct LeftOfTile {
  Tile tile;
  unsigned row;
};

// --- products by a warp: done when they return ---

// sum (16, rows of the tile) = left * tile^T
template <unsigned kWidth, unsigned kColumns, class Left>
__device__ __forceinline__ void multiply_transposed_by(FragmentC (&sum)[kColumns / 8],
                                                       const Left& left,
                                                       const PaddedTile<kWidth, kColumns>& tile) {
  STARLING_UNROLL
  for (FragmentC& each : sum) each = {};
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
template <unsigned kWidth, unsigned kColumns>
__device__ __forceinline__ void multiply_transposed(FragmentC (&sum)[kColumns / 8],
                                                    const LeftRows<kWidth>& left,
                                                    const PaddedTile<kWidth, kColumns>& tile) {
  multiply_transposed_by(
      sum, [&](unsigned step) { return left.at[step]; }, tile);
}
template <unsigned kWidth, unsigned kColumns, unsigned kRows>
__device__ __forceinline__ void multiply_transposed(
    FragmentC (&sum)[kColumns / 8], const LeftOfTile<PaddedTile<kWidth, kRows>>& left,
    const PaddedTile<kWidth, kColumns>& tile) {
  multiply_transposed_by(
      sum, [&](unsigned step) { return left.tile.left(left.row, step * 16); }, tile);
}

// Two neighbouring results (16, 8), rounded, as a left factor (16, 16).
__device__ __forceinline__ FragmentA as_left(const FragmentC& first, const FragmentC& second) {
  return {{pack_bf16(first.values[0], first.values[1]), pack_bf16(first.values[2], first.values[3]),
           pack_bf16(second.values[0], second.values[1]),
           pack_bf16(second.values[2], second.values[3])}};
}
// A result (16, kDepth), rounded, as left factors.
template <unsigned kDepth>
struct RoundedLeft {
  FragmentA at[kDepth / 16];

  __device__ __forceinline__ explicit RoundedLeft(const FragmentC (&result)[kDepth / 8]) {
    STARLING_UNROLL
    for (unsigned i = 0; i < kDepth / 16; ++i) at[i] = as_left(result[2 * i], result[2 * i + 1]);
  }
};

// sum (16, kWidth) += left (16, rows of the tile) * tile
template <unsigned kWidth, unsigned kDepth>
__device__ __forceinline__ void multiply_rounded(FragmentC (&sum)[kWidth / 8],
                                                 const RoundedLeft<kDepth>& left,
                                                 const PaddedTile<kWidth, kDepth>& tile) {
  STARLING_UNROLL
  for (unsigned depth = 0; depth < kDepth; depth += 16) {
    STARLING_UNROLL
    for (unsigned column = 0; column < kWidth; column += 16) {
      const auto right = tile.right(depth, column);
      multiply_add(sum[column / 8], left.at[depth / 16], right.first);
      multiply_add(sum[column / 8 + 1], left.at[depth / 16], right.second);
    }
  }
}

// Results of products that were begun, and what was multiplied, belong to them until this returns.
template <Multiplier kBy, int kPending = 0, class... Results>
__device__ __forceinline__ void finish_products([[maybe_unused]] Results&... results) {
  if constexpr (kBy == Multiplier::kWarpgroup) {
    wait_group_products<kPending>();
    (keep_in_order(results), ...);
  }
}

// --- products by a warpgroup: begun when they return ---

__device__ __forceinline__ GroupResult& group_result(FragmentC* first) {
  return *reinterpret_cast<GroupResult*>(first);
}

template <unsigned kWidth, unsigned kColumns, class Left>
__device__ __forceinline__ void multiply_transposed_by(FragmentC (&sum)[kColumns / 8],
                                                       const Left& left,
                                                       const SwizzledTile<kWidth, kColumns>& tile) {
  keep_in_order(sum);
  begin_group_products();
  STARLING_UNROLL
  for (unsigned step = 0; step < kWidth / 16; ++step) {
    STARLING_UNROLL
    for (unsigned column = 0; column < kColumns; column += kGroupColumns) {
      multiply_group<false>(group_result(sum + column / 8), left(step),
                            tile.part(column, step * 16), step > 0);
    }
  }
  commit_group_products();
}
template <unsigned kWidth, unsigned kColumns>
__device__ __forceinline__ void multiply_transposed(FragmentC (&sum)[kColumns / 8],
                                                    const LeftRows<kWidth>& left,
                                                    const SwizzledTile<kWidth, kColumns>& tile) {
  multiply_transposed_by(
      sum, [&](unsigned step) { return left.at[step]; }, tile);
}
template <unsigned kWidth, unsigned kColumns, unsigned kRows>
__device__ __forceinline__ void multiply_transposed(
    FragmentC (&sum)[kColumns / 8], const LeftOfTile<SwizzledTile<kWidth, kRows>>& left,
    const SwizzledTile<kWidth, kColumns>& tile) {
  multiply_transposed_by(
      sum, [&](unsigned step) { return left.tile.part(left.row, step * 16); }, tile);
}
template <unsigned kWidth, unsigned kDepth>
__device__ __forceinline__ void multiply_rounded(FragmentC (&sum)[kWidth / 8],
                                                 const RoundedLeft<kDepth>& left,
                                                 const SwizzledTile<kWidth, kDepth>& tile) {
  keep_in_order(sum);
  begin_group_products();
  STARLING_UNROLL
  for (unsigned depth = 0; depth < kDepth; depth += 16) {
    STARLING_UNROLL
    for (unsigned column = 0; column < kWidth; column += kGroupColumns) {
      multiply_group<true>(group_result(sum + column / 8), left.at[depth / 16],
                           tile.part(depth, column), true);
    }
  }
  commit_group_products();
}

// Scores of keys after their query, and of keys that do not exist, count as nothing: in (16, 8 *
// kFragments) scores whose first row is of `query` and first column of `key`.
template <unsigned kFragments>
__device__ __forceinline__ void mask_scores(FragmentC (&scores)[kFragments], int query, int key) {
  const int lane = static_cast<int>(lane_index());
  const int ahead = key - query + lane % 4 * 2 - lane / 4;  // this lane's first column of its row
  STARLING_UNROLL
  for (unsigned i = 0; i < kFragments; ++i) {
    STARLING_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      if (ahead + static_cast<int>(i * 8 + k % 2) > static_cast<int>(k / 2 * 8)) {
        scores[i].values[k] = -INFINITY;
      }
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
