// The backward of attention_kernels.cuh on the tensor cores, as in Dao, "FlashAttention-2", 2023,
// algorithm 2. With weights p = exp(s - log_sum), computed again, and the gradient g of the output,
//   dv = p^T g,  ds = p (g v^T - rowsum(g out)),  dq = scale ds k,  dk = scale ds^T q.
// The algorithm there computes p once and adds up dq with atomics; here one kernel takes blocks of
// keys and another blocks of queries, so that nothing is added up by two blocks: deterministic, for
// two products more of seven. Queries and keys are turned back (Rotations) before they are stored.
#pragma once

#include "cuda/attention_support.cuh"

namespace starling::cuda {

struct AttentionGradients {
  bf16* qkv_grad;  // set
  const bf16 *out_grad, *out;
  const float* log_sums;  // (sequences, heads, tokens)
  float* row_dots;        // (sequences, heads, tokens): rowsum(out_grad out), set with dq
  const bf16* qkv;
  const float *cosines, *sines;  // (tokens, width / 2)
  Heads heads;
  float scale;
};

// Blocks own kRows keys or queries, and go over the others, kStep at a time: as much as registers
// allow.
template <unsigned kWidth, Multiplier kBy>
struct BackwardPlan {
  static constexpr unsigned kWarps = 4;
  static constexpr unsigned kThreads = kWarps * kWarp;
  static constexpr unsigned kRows = kWarps * 16;
  static constexpr unsigned kStep = kBy == Multiplier::kOneWarp && kWidth > 64 ? 32 : 64;
  // Of a multiprocessor, so that one block multiplies while another weighs: by registers.
  static constexpr unsigned kBlocks = kWidth > 64 ? 2 : 3;
  // Of rows whose warps compute together.
  static constexpr unsigned kTogether = kBy == Multiplier::kOneWarp ? 16 : kGroupRows;
  using Own = typename TileOf<kBy, kWidth, kRows>::Type;
  using Met = typename TileOf<kBy, kWidth, kStep>::Type;
  static constexpr std::size_t kQueryBytes = 4 * Met::kBytes;  // of the kernel that owns queries
  static constexpr std::size_t kRowBytes = kStep * sizeof(float);
  static constexpr std::size_t kKeyBytes = 2 * Own::kBytes + 4 * Met::kBytes + 4 * kRowBytes;
};

// Turns back a row of a gradient (16, kWidth) in registers, then stores it; pairs are kWidth / 2
// columns apart, so that a lane has both.
template <unsigned kWidth>
__device__ __forceinline__ void store_turned_back(const AttentionGradients& args, bf16* row,
                                                  FragmentC (&gradient)[kWidth / 8], unsigned half,
                                                  int position) {
  constexpr unsigned kHalf = kWidth / 2;
  STARLING_UNROLL
  for (unsigned i = 0; i < kHalf / 8; ++i) {
    STARLING_UNROLL
    for (unsigned k = 0; k < 2; ++k) {
      const unsigned column = i * 8 + lane_index() % 4 * 2 + k;
      const std::int64_t angle = std::int64_t{position} * kHalf + column;
      const float cosine = args.cosines[angle], sine = args.sines[angle];
      float& first = gradient[i].values[2 * half + k];
      float& second = gradient[i + kHalf / 8].values[2 * half + k];
      const float turned = first * cosine + second * sine;
      second = second * cosine - first * sine;
      first = turned;
    }
  }
  store_row(row, gradient, half, args.scale);
}

// Scores become weights; log_sums are those of this lane's two rows, in powers of two.
template <unsigned kFragments>
__device__ __forceinline__ void weigh(FragmentC (&scores)[kFragments], const float (&log_sums)[2],
                                      float scale_log2) {
  STARLING_UNROLL
  for (FragmentC& each : scores) {
    STARLING_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      each.values[k] = fast_exp2(each.values[k] * scale_log2 - log_sums[k / 2]);
    }
  }
}

// Gradients of weights become those of scores; dots are those of this lane's two rows.
template <unsigned kFragments>
__device__ __forceinline__ void differentiate(FragmentC (&gradients)[kFragments],
                                              const FragmentC (&weights)[kFragments],
                                              const float (&dots)[2]) {
  STARLING_UNROLL
  for (unsigned i = 0; i < kFragments; ++i) {
    STARLING_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      float& gradient = gradients[i].values[k];
      gradient = weights[i].values[k] * (gradient - dots[k / 2]);
    }
  }
}

// Grid: blocks of queries, the last ones first; heads; sequences. Sets the gradients of queries,
// and row_dots, which the other kernel reads.
template <unsigned kWidth, Multiplier kBy>
__global__ void __launch_bounds__(BackwardPlan<kWidth, kBy>::kThreads,
                                  BackwardPlan<kWidth, kBy>::kBlocks)
    query_gradient_kernel(AttentionGradients args) {
  using Plan = BackwardPlan<kWidth, kBy>;
  using Met = typename Plan::Met;
  constexpr int kStep = Plan::kStep, kRows = Plan::kRows, kTogether = Plan::kTogether;
  STARLING_DYNAMIC_SHARED(memory);
  const auto tile_at = [&](int stage, unsigned which) {
    return Met{reinterpret_cast<bf16*>(memory + (2 * stage + which) * Met::kBytes)};
  };
  const std::int64_t head = blockIdx.y, sequence = blockIdx.z;
  const int tokens = static_cast<int>(args.heads.tokens);
  const int block_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kRows;
  const int query = block_query + static_cast<int>(warp_index() * 16);
  const int last_together = query + kTogether - 1 - (query - block_query) % kTogether;
  const auto from = packed_heads(args.qkv, args.heads, sequence, head);
  const auto fetch = [&](int key, int stage) {
    copy_rows<Plan::kThreads>(tile_at(stage, 0), from.keys, key, tokens);
    copy_rows<Plan::kThreads>(tile_at(stage, 1), from.values, key, tokens);
    commit_copies();
  };
  const int end = block_query + kRows < tokens ? block_query + kRows : tokens;
  fetch(0, 0);
  const LeftRows<kWidth> queries(from.queries, query, tokens);
  const LeftRows<kWidth> out_grads(out_rows(args.out_grad, args.heads, sequence, head), query,
                                   tokens);
  float log_sum[2], dot[2];
  row_dots_of(dot, out_grads,
              LeftRows<kWidth>(out_rows(args.out, args.heads, sequence, head), query, tokens));
  const std::int64_t list = (sequence * args.heads.heads + head) * args.heads.tokens;
  STARLING_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    const int row = query + static_cast<int>(lane_index() / 4 + half * 8);
    log_sum[half] = row < tokens ? args.log_sums[list + row] * kLog2E : INFINITY;
    if (row < tokens && lane_index() % 4 == 0) args.row_dots[list + row] = dot[half];
  }
  FragmentC gradient[kWidth / 8] = {};
  for (int key = 0; key < end; key += kStep) {
    const int stage = key / kStep % 2;
    wait_copies<0>();
    Met::publish();
    __syncthreads();  // everyone's part of this tile is there, and nobody reads the other one
    if (key + kStep < end) fetch(key + kStep, stage ^ 1);
    if (key > last_together) continue;
    FragmentC scores[kStep / 8], score_grads[kStep / 8];
    multiply_transposed(scores, queries, tile_at(stage, 0));
    multiply_transposed(score_grads, out_grads, tile_at(stage, 1));
    finish_products<kBy, 1>(scores);
    if (key + kStep > query) mask_scores(scores, query, key);
    weigh(scores, log_sum, args.scale * kLog2E);
    finish_products<kBy>(score_grads);
    differentiate(score_grads, scores, dot);
    const RoundedLeft<Plan::kStep> rounded_grads(score_grads);
    multiply_rounded(gradient, rounded_grads, tile_at(stage, 0));
    finish_products<kBy>(gradient);
  }
  const auto to = packed_heads(args.qkv_grad, args.heads, sequence, head).queries;
  STARLING_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    const int row = query + static_cast<int>(lane_index() / 4 + half * 8);
    if (row < tokens) store_turned_back<kWidth>(args, to.row(row), gradient, half, row);
  }
}

// Shared memory of the kernel that owns keys: keys and values of the block; two stages of queries
// and gradients of the output; of each stage log_sums and row_dots.
template <unsigned kWidth, Multiplier kBy>
struct KeyMemory {
  using Plan = BackwardPlan<kWidth, kBy>;
  using Own = typename Plan::Own;
  using Met = typename Plan::Met;
  std::byte* memory;

  __device__ Own own(unsigned which) const {
    return {reinterpret_cast<bf16*>(memory + which * Own::kBytes)};
  }
  __device__ Met tile(int stage, unsigned which) const {
    return {reinterpret_cast<bf16*>(memory + 2 * Own::kBytes + (2 * stage + which) * Met::kBytes)};
  }
  __device__ float* rows(int stage, unsigned which) const {
    return reinterpret_cast<float*>(memory + 2 * Own::kBytes + 4 * Met::kBytes +
                                    (2 * stage + which) * Plan::kRowBytes);
  }
};

// What a block of keys meets: the queries from `first` on, of each head of its group.
template <unsigned kWidth, Multiplier kBy>
struct QueryTiles {
  using Plan = BackwardPlan<kWidth, kBy>;
  const AttentionGradients& args;
  int first, of_a_head, count;  // tiles

  __device__ __forceinline__ int query(int tile) const {
    return first + tile % of_a_head * static_cast<int>(Plan::kStep);
  }
  // Queries that do not exist have zeros everywhere: they add nothing.
  __device__ __forceinline__ void fetch(const KeyMemory<kWidth, kBy>& memory, int tile,
                                        int stage) const {
    const std::int64_t sequence = blockIdx.z;
    const int tokens = static_cast<int>(args.heads.tokens), start = query(tile);
    const std::int64_t head = blockIdx.y * args.heads.group() + tile / of_a_head;
    const auto queries = packed_heads(args.qkv, args.heads, sequence, head).queries;
    const auto out_grads = out_rows(args.out_grad, args.heads, sequence, head);
    copy_rows<Plan::kThreads>(memory.tile(stage, 0), queries, start, tokens);
    copy_rows<Plan::kThreads>(memory.tile(stage, 1), out_grads, start, tokens);
    const unsigned at = threadIdx.x % Plan::kStep, which = threadIdx.x / Plan::kStep;
    if (which < 2) {
      const int row = start + static_cast<int>(at);
      const std::int64_t list = (sequence * args.heads.heads + head) * tokens;
      const float* source = which == 0 ? args.log_sums : args.row_dots;
      copy_float_async(memory.rows(stage, which) + at, source + list + (row < tokens ? row : 0),
                       row < tokens);
    }
    commit_copies();
  }
};

// weigh() and differentiate() in (keys, queries), with all queries' log_sums and dots. In one go:
// it keeps fewer registers.
template <unsigned kFragments>
__device__ __forceinline__ void weigh_transposed(FragmentC (&scores)[kFragments],
                                                 FragmentC (&gradients)[kFragments],
                                                 const float* log_sums, const float* dots,
                                                 float scale_log2) {
  STARLING_UNROLL
  for (unsigned i = 0; i < kFragments; ++i) {
    const unsigned query = i * 8 + lane_index() % 4 * 2;
    const auto log_sum = load_floats<2>(log_sums + query), dot = load_floats<2>(dots + query);
    STARLING_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      const float offset = log_sum.values[k % 2] * kLog2E;
      const float weight = fast_exp2(scores[i].values[k] * scale_log2 - offset);
      scores[i].values[k] = weight;
      gradients[i].values[k] = weight * (gradients[i].values[k] - dot.values[k % 2]);
    }
  }
}

// As mask_scores(), in (keys, queries): of queries before their key.
template <unsigned kFragments>
__device__ __forceinline__ void mask_transposed(FragmentC (&scores)[kFragments], int key,
                                                int query) {
  const int lane = static_cast<int>(lane_index());
  const int ahead = query - key + lane % 4 * 2 - lane / 4;  // this lane's first query of its key
  STARLING_UNROLL
  for (unsigned i = 0; i < kFragments; ++i) {
    STARLING_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      if (ahead + static_cast<int>(i * 8 + k % 2) < static_cast<int>(k / 2 * 8)) {
        scores[i].values[k] = -INFINITY;
      }
    }
  }
}

// Grid: blocks of keys; key heads; sequences. Sets the gradients of keys and values.
template <unsigned kWidth, Multiplier kBy>
__global__ void __launch_bounds__(BackwardPlan<kWidth, kBy>::kThreads,
                                  BackwardPlan<kWidth, kBy>::kBlocks)
    key_gradient_kernel(AttentionGradients args) {
  using Plan = BackwardPlan<kWidth, kBy>;
  using Own = typename Plan::Own;
  constexpr int kStep = Plan::kStep, kRows = Plan::kRows, kTogether = Plan::kTogether;
  STARLING_DYNAMIC_SHARED(dynamic);
  const KeyMemory<kWidth, kBy> memory{dynamic};
  const int tokens = static_cast<int>(args.heads.tokens);
  const int block_key = static_cast<int>(blockIdx.x) * kRows;
  const int tiles = (tokens - block_key + kStep - 1) / kStep;
  const QueryTiles<kWidth, kBy> queries{args, block_key, tiles,
                                        tiles * static_cast<int>(args.heads.group())};
  const std::int64_t head = blockIdx.y * args.heads.group();
  const auto from = packed_heads(args.qkv, args.heads, blockIdx.z, head);
  copy_rows<Plan::kThreads>(memory.own(0), from.keys, block_key, tokens);
  copy_rows<Plan::kThreads>(memory.own(1), from.values, block_key, tokens);
  queries.fetch(memory, 0, 0);
  const unsigned row = warp_index() * 16, together = row / kTogether * kTogether;
  const int key = block_key + static_cast<int>(row);
  const LeftOfTile<Own> keys{memory.own(0), together}, values{memory.own(1), together};
  FragmentC key_grad[kWidth / 8] = {}, value_grad[kWidth / 8] = {};
  for (int tile = 0; tile < queries.count; ++tile) {
    const int stage = tile % 2, query = queries.query(tile);
    wait_copies<0>();
    Own::publish();
    __syncthreads();  // everyone's part of this tile is there, and nobody reads the other one
    if (tile + 1 < queries.count) queries.fetch(memory, tile + 1, stage ^ 1);
    if (query + kStep <= block_key + static_cast<int>(together)) continue;
    FragmentC scores[kStep / 8], score_grads[kStep / 8];
    multiply_transposed(scores, keys, memory.tile(stage, 0));
    multiply_transposed(score_grads, values, memory.tile(stage, 1));
    finish_products<kBy>(scores, score_grads);
    if (query < key + 16) mask_transposed(scores, key, query);
    weigh_transposed(scores, score_grads, memory.rows(stage, 0), memory.rows(stage, 1),
                     args.scale * kLog2E);
    const RoundedLeft<Plan::kStep> rounded_weights(scores), rounded_grads(score_grads);
    multiply_rounded(value_grad, rounded_weights, memory.tile(stage, 1));
    multiply_rounded(key_grad, rounded_grads, memory.tile(stage, 0));
    finish_products<kBy>(value_grad, key_grad);
  }
  const auto to = packed_heads(args.qkv_grad, args.heads, blockIdx.z, head);
  STARLING_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    const int own = key + static_cast<int>(lane_index() / 4 + half * 8);
    if (own >= tokens) continue;
    store_row(to.values.row(own), value_grad, half, 1.0F);
    store_turned_back<kWidth>(args, to.keys.row(own), key_grad, half, own);
  }
}

}  // namespace starling::cuda
