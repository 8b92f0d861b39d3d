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
  const bf16* out_grad;
  const float* log_sums;  // (sequences, heads, tokens)
  const float* row_dots;  // (sequences, heads, tokens): rowsum(out_grad * out)
  const bf16* qkv;
  const float *cosines, *sines;  // (tokens, width / 2)
  Heads heads;
  float scale;
};

template <unsigned kWidth>
struct BackwardPlan {
  static constexpr unsigned kWarps = 4;
  static constexpr unsigned kThreads = kWarps * kWarp;
  static constexpr unsigned kRows = kWarps * 16;  // keys or queries that a block owns
  // What it goes over, a tile at a time: as much as registers allow.
  static constexpr unsigned kStep = kWidth > 64 ? 32 : 64;
  static constexpr std::size_t kStageBytes = 2 * Tile<kWidth>::bytes(kStep);
  static constexpr std::size_t kOwnBytes = 2 * Tile<kWidth>::bytes(kRows);
  static constexpr std::size_t kQueryBytes = 2 * kStageBytes;  // of the kernel that owns queries
  static constexpr std::size_t kRowBytes = kStep * sizeof(float);
  static constexpr std::size_t kKeyBytes = kOwnBytes + 2 * (kStageBytes + 2 * kRowBytes);
};

// Turns back a row of a gradient (16, kWidth) in registers, then stores it; pairs are kWidth / 2
// columns apart, so that a lane has both.
template <unsigned kWidth>
__device__ __forceinline__ void store_turned_back(const AttentionGradients& args, bf16* row,
                                                  FragmentC (&gradient)[kWidth / 8], unsigned half,
                                                  std::int64_t position) {
  constexpr unsigned kHalf = kWidth / 2;
  STARLING_UNROLL
  for (unsigned i = 0; i < kHalf / 8; ++i) {
    STARLING_UNROLL
    for (unsigned k = 0; k < 2; ++k) {
      const std::int64_t angle = position * kHalf + i * 8 + lane_index() % 4 * 2 + k;
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

// Grid: blocks of queries, the last ones first; heads; sequences. Sets the gradients of queries.
template <unsigned kWidth>
__global__ void __launch_bounds__(BackwardPlan<kWidth>::kThreads)
    query_gradient_kernel(AttentionGradients args) {
  using Plan = BackwardPlan<kWidth>;
  STARLING_DYNAMIC_SHARED(memory);
  const auto tile_at = [&](unsigned stage, unsigned which) {
    return Tile<kWidth>{reinterpret_cast<bf16*>(memory + stage * Plan::kStageBytes +
                                                which * Tile<kWidth>::bytes(Plan::kStep))};
  };
  const std::int64_t head = blockIdx.y, sequence = blockIdx.z, tokens = args.heads.tokens;
  const std::int64_t block_query =
      static_cast<std::int64_t>(gridDim.x - 1 - blockIdx.x) * Plan::kRows;
  const std::int64_t query = block_query + warp_index() * 16;
  const auto from = packed_heads(args.qkv, args.heads, sequence, head);
  const auto fetch = [&](std::int64_t key, unsigned stage) {
    tile_at(stage, 0).template copy_rows<Plan::kStep, Plan::kThreads>(from.keys, key, tokens);
    tile_at(stage, 1).template copy_rows<Plan::kStep, Plan::kThreads>(from.values, key, tokens);
    commit_copies();
  };
  const std::int64_t end = block_query + Plan::kRows < tokens ? block_query + Plan::kRows : tokens;
  fetch(0, 0);
  const LeftRows<kWidth> queries(from.queries, query, tokens);
  const LeftRows<kWidth> out_grads(out_rows(args.out_grad, args.heads, sequence, head), query,
                                   tokens);
  float log_sum[2], dot[2];
  const std::int64_t list = (sequence * args.heads.heads + head) * tokens;
  STARLING_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    const std::int64_t row = query + lane_index() / 4 + half * 8;
    log_sum[half] = row < tokens ? args.log_sums[list + row] * kLog2E : INFINITY;
    dot[half] = row < tokens ? args.row_dots[list + row] : 0;
  }
  FragmentC gradient[kWidth / 8] = {};
  for (std::int64_t key = 0; key < end; key += Plan::kStep) {
    const unsigned stage = static_cast<unsigned>(key / Plan::kStep % 2);
    if (key + Plan::kStep < end) {
      fetch(key + Plan::kStep, stage ^ 1);
      wait_copies<1>();
    } else {
      wait_copies<0>();
    }
    __syncthreads();  // everyone's part of this tile is there
    FragmentC scores[Plan::kStep / 8] = {}, weight_grads[Plan::kStep / 8] = {};
    multiply_transposed<kWidth, Plan::kStep>(
        scores, [&](unsigned step) { return queries.at[step]; }, tile_at(stage, 0));
    multiply_transposed<kWidth, Plan::kStep>(
        weight_grads, [&](unsigned step) { return out_grads.at[step]; }, tile_at(stage, 1));
    STARLING_UNROLL
    for (unsigned i = 0; i < Plan::kStep / 8; ++i) {
      STARLING_UNROLL
      for (unsigned k = 0; k < 4; ++k) {
        const std::int64_t row = query + lane_index() / 4 + k / 2 * 8;
        const std::int64_t column = key + i * 8 + lane_index() % 4 * 2 + k % 2;
        const float exponent = scores[i].values[k] * args.scale * kLog2E - log_sum[k / 2];
        const float weight = column > row ? 0.0F : exp2f(exponent);
        scores[i].values[k] = weight * (weight_grads[i].values[k] - dot[k / 2]);
      }
    }
    multiply_rounded<kWidth, Plan::kStep>(gradient, scores, tile_at(stage, 0));
    __syncthreads();  // the tile may be overwritten
  }
  const auto to = packed_heads(args.qkv_grad, args.heads, sequence, head).queries;
  STARLING_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    const std::int64_t row = query + lane_index() / 4 + half * 8;
    if (row < tokens) store_turned_back<kWidth>(args, to.row(row), gradient, half, row);
  }
}

// Shared memory of the kernel that owns keys: keys and values of the block, then two stages of
// queries, gradients of the output, log_sums and row_dots.
template <unsigned kWidth>
struct KeyMemory {
  using Plan = BackwardPlan<kWidth>;
  std::byte* memory;

  __device__ Tile<kWidth> own(unsigned which) const {
    return {reinterpret_cast<bf16*>(memory + which * Tile<kWidth>::bytes(Plan::kRows))};
  }
  __device__ std::byte* stage(unsigned index) const {
    return memory + Plan::kOwnBytes + index * (Plan::kStageBytes + 2 * Plan::kRowBytes);
  }
  __device__ Tile<kWidth> tile(unsigned index, unsigned which) const {
    return {reinterpret_cast<bf16*>(stage(index) + which * Tile<kWidth>::bytes(Plan::kStep))};
  }
  __device__ float* rows(unsigned index, unsigned which) const {
    return reinterpret_cast<float*>(stage(index) + Plan::kStageBytes + which * Plan::kRowBytes);
  }
};

// What a block of keys meets: the queries from `first` on, of each head of its group.
template <unsigned kWidth>
struct QueryTiles {
  using Plan = BackwardPlan<kWidth>;
  const AttentionGradients& args;
  std::int64_t first, of_a_head, count;  // tiles

  __device__ __forceinline__ std::int64_t query(std::int64_t tile) const {
    return first + tile % of_a_head * Plan::kStep;
  }
  __device__ __forceinline__ void fetch(const KeyMemory<kWidth>& memory, std::int64_t tile,
                                        unsigned stage) const {
    const std::int64_t tokens = args.heads.tokens, sequence = blockIdx.z, start = query(tile);
    const std::int64_t head = blockIdx.y * args.heads.group() + tile / of_a_head;
    const auto queries = packed_heads(args.qkv, args.heads, sequence, head).queries;
    const auto out_grads = out_rows(args.out_grad, args.heads, sequence, head);
    memory.tile(stage, 0).template copy_rows<Plan::kStep, Plan::kThreads>(queries, start, tokens);
    memory.tile(stage, 1).template copy_rows<Plan::kStep, Plan::kThreads>(out_grads, start, tokens);
    commit_copies();
    const std::int64_t list = (sequence * args.heads.heads + head) * tokens;
    if (threadIdx.x < Plan::kStep) {
      const std::int64_t row = start + threadIdx.x;
      memory.rows(stage, 0)[threadIdx.x] =
          row < tokens ? args.log_sums[list + row] * kLog2E : INFINITY;
      memory.rows(stage, 1)[threadIdx.x] = row < tokens ? args.row_dots[list + row] : 0;
    }
  }
};

// Scores (keys, queries) become weights, and their gradients those of the scores.
template <unsigned kFragments>
__device__ __forceinline__ void weigh_transposed(FragmentC (&scores)[kFragments],
                                                 FragmentC (&gradients)[kFragments],
                                                 const float* log_sums, const float* dots,
                                                 std::int64_t ahead, float scale_log2) {
  const unsigned group = lane_index() / 4, part = lane_index() % 4;
  STARLING_UNROLL
  for (unsigned i = 0; i < kFragments; ++i) {
    STARLING_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      const unsigned query = i * 8 + part * 2 + k % 2;
      // `ahead`: how far the first key is after the first query.
      const bool sees = ahead + group + k / 2 * 8 <= query;
      const float weight = sees ? exp2f(scores[i].values[k] * scale_log2 - log_sums[query]) : 0.0F;
      scores[i].values[k] = weight;
      gradients[i].values[k] = weight * (gradients[i].values[k] - dots[query]);
    }
  }
}

// Grid: blocks of keys; key heads; sequences. Sets the gradients of keys and values.
template <unsigned kWidth>
__global__ void __launch_bounds__(BackwardPlan<kWidth>::kThreads)
    key_gradient_kernel(AttentionGradients args) {
  using Plan = BackwardPlan<kWidth>;
  STARLING_DYNAMIC_SHARED(dynamic);
  const KeyMemory<kWidth> memory{dynamic};
  const std::int64_t tokens = args.heads.tokens,
                     block_key = static_cast<std::int64_t>(blockIdx.x) * Plan::kRows;
  const std::int64_t tiles = (tokens - block_key + Plan::kStep - 1) / Plan::kStep;
  const QueryTiles<kWidth> queries{args, block_key, tiles, tiles * args.heads.group()};
  const std::int64_t head = blockIdx.y * args.heads.group();
  const auto own = packed_heads(args.qkv, args.heads, blockIdx.z, head);
  memory.own(0).template copy_rows<Plan::kRows, Plan::kThreads>(own.keys, block_key, tokens);
  memory.own(1).template copy_rows<Plan::kRows, Plan::kThreads>(own.values, block_key, tokens);
  queries.fetch(memory, 0, 0);
  const unsigned row = warp_index() * 16;
  FragmentC key_grad[kWidth / 8] = {}, value_grad[kWidth / 8] = {};
  for (std::int64_t tile = 0; tile < queries.count; ++tile) {
    const unsigned stage = static_cast<unsigned>(tile % 2);
    if (tile + 1 < queries.count) {
      queries.fetch(memory, tile + 1, stage ^ 1);
      wait_copies<1>();
    } else {
      wait_copies<0>();
    }
    __syncthreads();  // everyone's part of this tile is there
    FragmentC scores[Plan::kStep / 8] = {}, gradients[Plan::kStep / 8] = {};
    multiply_transposed<kWidth, Plan::kStep>(
        scores, [&](unsigned step) { return memory.own(0).left(row, step * 16); },
        memory.tile(stage, 0));
    multiply_transposed<kWidth, Plan::kStep>(
        gradients, [&](unsigned step) { return memory.own(1).left(row, step * 16); },
        memory.tile(stage, 1));
    weigh_transposed(scores, gradients, memory.rows(stage, 0), memory.rows(stage, 1),
                     block_key + row - queries.query(tile), args.scale * kLog2E);
    multiply_rounded<kWidth, Plan::kStep>(value_grad, scores, memory.tile(stage, 1));
    multiply_rounded<kWidth, Plan::kStep>(key_grad, gradients, memory.tile(stage, 0));
    __syncthreads();  // the tile may be overwritten
  }
  const auto to = packed_heads(args.qkv_grad, args.heads, blockIdx.z, head);
  STARLING_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    const std::int64_t key = block_key + row + lane_index() / 4 + half * 8;
    if (key >= tokens) continue;
    store_row(to.values.row(key), value_grad, half, 1.0F);
    store_turned_back<kWidth>(args, to.keys.row(key), key_grad, half, key);
  }
}

}  // namespace starling::cuda
