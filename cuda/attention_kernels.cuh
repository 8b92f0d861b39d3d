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

template <unsigned kWidth, Multiplier kBy>
struct ForwardPlan {
  static constexpr unsigned kWarps = 4;
  static constexpr unsigned kThreads = kWarps * kWarp;
  static constexpr unsigned kQueries = kWarps * 16;
  static constexpr unsigned kKeys = 64;
  // Of queries whose warps compute together.
  static constexpr unsigned kTogether = kBy == Multiplier::kOneWarp ? 16 : kGroupRows;
  using Keys = typename TileOf<kBy, kWidth, kKeys>::Type;
  static constexpr std::size_t kSharedBytes = 4 * Keys::kBytes;  // keys and values, two stages
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
      const float offset = next * scale_log2;
      rescale[half] = fast_exp2(largest[half] * scale_log2 - offset);
      largest[half] = next;
      sum[half] *= rescale[half];
      STARLING_UNROLL
      for (unsigned i = 0; i < kFragments; ++i) {
        STARLING_UNROLL
        for (unsigned k = 2 * half; k < 2 * half + 2; ++k) {
          scores[i].values[k] = fast_exp2(scores[i].values[k] * scale_log2 - offset);
          sum[half] += scores[i].values[k];
        }
      }
    }
  }
};

template <unsigned kWidth>
__device__ __forceinline__ void store_attended(const AttentionForward& args,
                                               const FragmentC (&out)[kWidth / 8],
                                               const OnlineSoftmax& softmax, int query) {
  const std::int64_t head = blockIdx.y, sequence = blockIdx.z;
  const auto rows = out_rows(args.out, args.heads, sequence, head);
  float* log_sums = args.log_sums + (sequence * args.heads.heads + head) * args.heads.tokens;
  STARLING_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    const float sum = warp_sum<4>(softmax.sum[half]);
    const int row = query + static_cast<int>(lane_index() / 4 + half * 8);
    if (row >= args.heads.tokens) continue;
    store_row(rows.row(row), out, half, 1.0F / sum);
    if (lane_index() % 4 == 0) log_sums[row] = softmax.largest[half] * args.scale + logf(sum);
  }
}

// Grid: blocks of queries, of which the last ones, with the most keys, come first; heads;
// sequences.
template <unsigned kWidth, Multiplier kBy>
__global__ void __launch_bounds__(ForwardPlan<kWidth, kBy>::kThreads)
    attention_kernel(AttentionForward args) {
  using Plan = ForwardPlan<kWidth, kBy>;
  using Keys = typename Plan::Keys;
  STARLING_DYNAMIC_SHARED(memory);
  const auto tile_at = [&](int stage, unsigned which) {
    return Keys{reinterpret_cast<bf16*>(memory + (2 * stage + which) * Keys::kBytes)};
  };
  constexpr int kQueries = Plan::kQueries, kKeys = Plan::kKeys;
  const int tokens = static_cast<int>(args.heads.tokens);
  const int block_query =
      static_cast<int>(args.first) + static_cast<int>(gridDim.x - 1 - blockIdx.x) * kQueries;
  const int query = block_query + static_cast<int>(warp_index() * 16);
  constexpr int kTogether = Plan::kTogether;
  const int last_together = query + kTogether - 1 - (query - block_query) % kTogether;
  const auto from = packed_heads(args.qkv, args.heads, blockIdx.z, blockIdx.y);
  const auto fetch = [&](int key, int stage) {
    copy_rows<Plan::kThreads>(tile_at(stage, 0), from.keys, key, tokens);
    copy_rows<Plan::kThreads>(tile_at(stage, 1), from.values, key, tokens);
    commit_copies();
  };
  const int end = block_query + kQueries < tokens ? block_query + kQueries : tokens;
  fetch(0, 0);
  const LeftRows<kWidth> queries(from.queries, query, tokens);
  OnlineSoftmax softmax;
  FragmentC out[kWidth / 8] = {};
  for (int key = 0; key < end; key += kKeys) {
    const int stage = key / kKeys % 2;
    wait_copies<0>();
    Keys::publish();
    __syncthreads();  // everyone's part of this tile is there, and nobody reads the other one
    if (key + kKeys < end) fetch(key + kKeys, stage ^ 1);
    if (key > last_together) continue;
    FragmentC scores[kKeys / 8];
    multiply_transposed(scores, queries, tile_at(stage, 0));
    finish_products<kBy>(scores);
    if (key + kKeys > query) mask_scores(scores, query, key);
    float rescale[2];
    softmax.update(scores, args.scale * kLog2E, rescale);
    STARLING_UNROLL
    for (unsigned i = 0; i < kWidth / 8; ++i) {
      for (unsigned k = 0; k < 4; ++k) out[i].values[k] *= rescale[k / 2];
    }
    const RoundedLeft<kKeys> weights(scores);
    multiply_rounded(out, weights, tile_at(stage, 1));
    finish_products<kBy>(out);
  }
  store_attended<kWidth>(args, out, softmax, query);
}

}  // namespace starling::cuda
