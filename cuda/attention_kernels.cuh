// Causal attention with grouped queries on the tensor cores, forward, as in Dao,
// "FlashAttention-2", 2023, algorithm 1: a block takes kQueries queries of a head and goes over the
// keys, of which the next tile is under way while one is computed with. With scores s = scale q k^T
// it keeps
//   m = max(m, s),  l = exp(m_old - m) l + sum exp(s - m),  o = exp(m_old - m) o + exp(s - m) v
// in registers, and in the end out = o / l and log_sum = m + log l. Operands are bf16, sums float.
// No two blocks add to one place: deterministic.
#pragma once

#include <cfloat>

#include "cuda/attention_support.cuh"

namespace starling::cuda {

struct AttentionForward {
  bf16* out;        // (tokens of all sequences, heads * width)
  float* log_sums;  // (sequences, heads, tokens)
  const bf16* qkv;
  Heads heads;
  std::int64_t first;  // queries before it are left out
  float scale;
};

template <unsigned kWidth>
struct ForwardPlan {
  static constexpr unsigned kWarps = 4;
  static constexpr unsigned kThreads = kWarps * kWarp;
  static constexpr unsigned kQueries = kWarps * 16;
  static constexpr unsigned kKeys = 64;
  static constexpr std::size_t kSharedBytes = 4 * Tile<kWidth>::bytes(kKeys);  // two stages
};

// The softmax of a warp's 16 rows so far; a lane has rows group and group + 8.
struct OnlineSoftmax {
  float largest[2] = {-FLT_MAX, -FLT_MAX};  // of scores that are not scaled
  float sum[2] = {0, 0};                    // of this lane's columns

  // Scores become weights; what `out` must be scaled with comes back.
  template <unsigned kFragments>
  __device__ __forceinline__ void update(FragmentC (&scores)[kFragments], float scale_log2,
                                         float (&rescale)[2]) {
    STARLING_UNROLL
    for (unsigned half = 0; half < 2; ++half) {
      float next = largest[half];
      STARLING_UNROLL
      for (unsigned i = 0; i < kFragments; ++i) {
        next = fmaxf(next, fmaxf(scores[i].values[2 * half], scores[i].values[2 * half + 1]));
      }
      next = warp_max<4>(next);
      rescale[half] = exp2f((largest[half] - next) * scale_log2);
      largest[half] = next;
      sum[half] *= rescale[half];
      STARLING_UNROLL
      for (unsigned i = 0; i < kFragments; ++i) {
        STARLING_UNROLL
        for (unsigned k = 2 * half; k < 2 * half + 2; ++k) {
          scores[i].values[k] = exp2f((scores[i].values[k] - next) * scale_log2);
          sum[half] += scores[i].values[k];
        }
      }
    }
  }
};

// Scores of keys after their query, and of keys that do not exist, count as nothing: in (16, 8 *
// kFragments) scores whose first row is `query` and first column `key`.
template <unsigned kFragments>
__device__ __forceinline__ void mask_scores(FragmentC (&scores)[kFragments], std::int64_t query,
                                            std::int64_t key) {
  const std::int64_t row = query + lane_index() / 4, column = key + lane_index() % 4 * 2;
  STARLING_UNROLL
  for (unsigned i = 0; i < kFragments; ++i) {
    STARLING_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      if (column + i * 8 + k % 2 > row + k / 2 * 8) scores[i].values[k] = -INFINITY;
    }
  }
}

template <unsigned kWidth>
__device__ __forceinline__ void store_attended(const AttentionForward& args,
                                               const FragmentC (&out)[kWidth / 8],
                                               const OnlineSoftmax& softmax, std::int64_t query) {
  const std::int64_t head = blockIdx.y, sequence = blockIdx.z;
  const auto rows = out_rows(args.out, args.heads, sequence, head);
  float* log_sums = args.log_sums + (sequence * args.heads.heads + head) * args.heads.tokens;
  STARLING_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    const float sum = warp_sum<4>(softmax.sum[half]);
    const std::int64_t row = query + lane_index() / 4 + half * 8;
    if (row >= args.heads.tokens) continue;
    store_row(rows.row(row), out, half, 1.0F / sum);
    if (lane_index() % 4 == 0) log_sums[row] = softmax.largest[half] * args.scale + logf(sum);
  }
}

// Grid: blocks of queries, of which the last ones, with the most keys, come first; heads;
// sequences.
template <unsigned kWidth>
__global__ void __launch_bounds__(ForwardPlan<kWidth>::kThreads)
    attention_kernel(AttentionForward args) {
  using Plan = ForwardPlan<kWidth>;
  STARLING_DYNAMIC_SHARED(memory);
  const auto tile_at = [&](unsigned stage, unsigned which) {
    constexpr std::size_t kBytes = Tile<kWidth>::bytes(Plan::kKeys);
    return Tile<kWidth>{reinterpret_cast<bf16*>(memory + (2 * stage + which) * kBytes)};
  };
  const std::int64_t block_query = args.first + (gridDim.x - 1 - blockIdx.x) * Plan::kQueries;
  const std::int64_t query = block_query + warp_index() * 16, tokens = args.heads.tokens;
  const auto from = packed_heads(args.qkv, args.heads, blockIdx.z, blockIdx.y);
  const auto fetch = [&](std::int64_t key, unsigned stage) {
    tile_at(stage, 0).template copy_rows<Plan::kKeys, Plan::kThreads>(from.keys, key, tokens);
    tile_at(stage, 1).template copy_rows<Plan::kKeys, Plan::kThreads>(from.values, key, tokens);
    commit_copies();
  };
  const std::int64_t end =
      block_query + Plan::kQueries < tokens ? block_query + Plan::kQueries : tokens;
  fetch(0, 0);
  const LeftRows<kWidth> queries(from.queries, query, tokens);
  OnlineSoftmax softmax;
  FragmentC out[kWidth / 8] = {};
  for (std::int64_t key = 0; key < end; key += Plan::kKeys) {
    const unsigned stage = static_cast<unsigned>(key / Plan::kKeys % 2);
    if (key + Plan::kKeys < end) {
      fetch(key + Plan::kKeys, stage ^ 1);
      wait_copies<1>();
    } else {
      wait_copies<0>();
    }
    __syncthreads();  // everyone's part of this tile is there
    FragmentC scores[Plan::kKeys / 8] = {};
    multiply_transposed<kWidth, Plan::kKeys>(
        scores, [&](unsigned step) { return queries.at[step]; }, tile_at(stage, 0));
    if (key + Plan::kKeys > query) mask_scores(scores, query, key);
    float rescale[2];
    softmax.update(scores, args.scale * kLog2E, rescale);
    STARLING_UNROLL
    for (unsigned i = 0; i < kWidth / 8; ++i) {
      for (unsigned k = 0; k < 4; ++k) out[i].values[k] *= rescale[k / 2];
    }
    multiply_rounded<kWidth, Plan::kKeys>(out, scores, tile_at(stage, 1));
    __syncthreads();  // the tile may be overwritten
  }
  store_attended<kWidth>(args, out, softmax, query);
}

}  // namespace starling::cuda
