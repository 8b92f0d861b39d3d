// Causal attention with grouped queries for any type and head width, forward and backward: what the
// kernels on the tensor cores are checked with, and what runs where they do not (floats, other
// widths). One warp a row; it takes kWarp keys, or queries, at a time, one a lane, and then gives
// each lane the columns lane, lane + 32, ... of the row. Formulas: attention_kernels.cuh,
// attention_backward_kernels.cuh.
#pragma once

#include <cfloat>

#include "cuda/attention_support.cuh"

namespace starling::cuda {

template <class T>
struct PlainAttention {
  T* out;  // of the backward: the gradient of qkv
  float* log_sums;
  const T* qkv;
  const T* out_grad;  // of the backward, as what follows
  const float* row_dots;
  const float *cosines, *sines;  // (tokens, width / 2)
  Heads heads;
  std::int64_t first;
  float scale;
};

// dots (sequences, heads, tokens) = rowsum(out_grad * out), kCount elements of a lane at a time;
// `lanes` of them, a power of two, for each head of each token.
inline constexpr unsigned kRowDotsThreads = 128;
template <int kCount, class T>
__global__ void __launch_bounds__(kRowDotsThreads)
    row_dots_kernel(float* dots, const T* out_grad, const T* out, Heads heads, std::int64_t rows,
                    unsigned lanes) {
  const unsigned row_of_block = threadIdx.x / lanes;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * (kRowDotsThreads / lanes) + row_of_block;
  float sum = 0;
  for (std::int64_t i = threadIdx.x % lanes * kCount; i < heads.width && row < rows;
       i += lanes * kCount) {
    const auto left = load_floats<kCount>(out_grad + row * heads.width + i);
    const auto right = load_floats<kCount>(out + row * heads.width + i);
    STARLING_UNROLL
    for (int k = 0; k < kCount; ++k) sum += left.values[k] * right.values[k];
  }
  for (unsigned bits = lanes / 2; bits > 0; bits /= 2) sum += shuffle_xor(sum, bits);
  if (threadIdx.x % lanes != 0 || row >= rows) return;
  const std::int64_t token = row / heads.heads, head = row % heads.heads;
  dots[(token / heads.tokens * heads.heads + head) * heads.tokens + token % heads.tokens] = sum;
}

template <class T>
__device__ __forceinline__ float dot(const T* left, const T* right, std::int64_t width) {
  float sum = 0;
  for (std::int64_t i = 0; i < width; ++i) sum += load(left + i) * load(right + i);
  return sum;
}

// sums[column] += weights[i] * rows[i][column], for this lane's columns and the first `count` rows.
template <class T>
__device__ __forceinline__ void add_weighted(float* sums, const float* weights,
                                             const HeadRows<const T>& rows, std::int64_t first,
                                             std::int64_t count, std::int64_t width) {
  for (std::int64_t column = lane_index(); column < width; column += kWarp) {
    float sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += weights[i] * load(rows.row(first + i) + column);
    sums[column] += sum;
  }
}

__device__ __forceinline__ void clear(float* sums, std::int64_t width) {
  for (std::int64_t column = lane_index(); column < width; column += kWarp) sums[column] = 0;
}
template <class T>
__device__ __forceinline__ void store_sums(T* row, const float* sums, std::int64_t width,
                                           float scale) {
  for (std::int64_t column = lane_index(); column < width; column += kWarp) {
    store(row + column, sums[column] * scale);
  }
}

// As store_turned_back of attention_backward_kernels.cuh.
template <class T>
__device__ __forceinline__ void store_turned_back(const PlainAttention<T>& args, T* row,
                                                  const float* sums, std::int64_t position) {
  const std::int64_t half = args.heads.width / 2;
  for (std::int64_t i = lane_index(); i < half; i += kWarp) {
    const float cosine = args.cosines[position * half + i], sine = args.sines[position * half + i];
    store(row + i, args.scale * (sums[i] * cosine + sums[i + half] * sine));
    store(row + i + half, args.scale * (sums[i + half] * cosine - sums[i] * sine));
  }
}

// Of `which` row that is computed: its sums, and the weights of what they are made of.
__device__ __forceinline__ float* plain_sums(std::byte* memory, unsigned which,
                                             std::int64_t width) {
  return reinterpret_cast<float*>(memory) + which * (width + kWarp);
}

// Grid: queries from `first` on; heads; sequences.
template <class T>
__global__ void __launch_bounds__(kWarp) plain_attention_kernel(PlainAttention<T> args) {
  STARLING_DYNAMIC_SHARED(memory);
  const std::int64_t head = blockIdx.y, sequence = blockIdx.z, width = args.heads.width;
  float* sums = plain_sums(memory, 0, width);
  float* weights = sums + width;
  const auto from = packed_heads(args.qkv, args.heads, sequence, head);
  const std::int64_t query = args.first + blockIdx.x;
  float largest = -FLT_MAX, sum = 0;
  clear(sums, width);
  for (std::int64_t key = 0; key <= query; key += kWarp) {
    const std::int64_t mine = key + lane_index(),
                       count = query + 1 - key < kWarp ? query + 1 - key : kWarp;
    const float score = mine <= query
                            ? args.scale * dot(from.queries.row(query), from.keys.row(mine), width)
                            : -INFINITY;
    const float next = fmaxf(largest, warp_max(score));
    const float rescale = expf(largest - next);
    weights[lane_index()] = expf(score - next);
    sum = sum * rescale + warp_sum(expf(score - next));
    largest = next;
    for (std::int64_t column = lane_index(); column < width; column += kWarp)
      sums[column] *= rescale;
    sync_warp();  // all weights are there
    add_weighted(sums, weights, from.values, key, count, width);
    sync_warp();  // they may be overwritten
  }
  store_sums(out_rows(args.out, args.heads, sequence, head).row(query), sums, width, 1.0F / sum);
  if (lane_index() == 0) {
    args.log_sums[(sequence * args.heads.heads + head) * args.heads.tokens + query] =
        largest + logf(sum);
  }
}

struct WeightAndGradient {
  float weight, score_grad;
};
template <class T>
__device__ __forceinline__ WeightAndGradient weight_of(const PlainAttention<T>& args,
                                                       const PackedHeads<const T>& from,
                                                       const T* out_grad, std::int64_t list,
                                                       std::int64_t query, std::int64_t key) {
  const std::int64_t width = args.heads.width;
  const float score = args.scale * dot(from.queries.row(query), from.keys.row(key), width);
  const float weight = expf(score - args.log_sums[list + query]);
  return {weight,
          weight * (dot(out_grad, from.values.row(key), width) - args.row_dots[list + query])};
}

// Grid: queries; heads; sequences. Sets the gradients of queries.
template <class T>
__global__ void __launch_bounds__(kWarp) plain_query_gradient_kernel(PlainAttention<T> args) {
  STARLING_DYNAMIC_SHARED(memory);
  const std::int64_t head = blockIdx.y, sequence = blockIdx.z, width = args.heads.width;
  float* sums = plain_sums(memory, 0, width);
  float* weights = sums + width;
  const auto from = packed_heads(args.qkv, args.heads, sequence, head);
  const std::int64_t query = blockIdx.x,
                     list = (sequence * args.heads.heads + head) * args.heads.tokens;
  const T* out_grad = out_rows(args.out_grad, args.heads, sequence, head).row(query);
  clear(sums, width);
  for (std::int64_t key = 0; key <= query; key += kWarp) {
    const std::int64_t mine = key + lane_index(),
                       count = query + 1 - key < kWarp ? query + 1 - key : kWarp;
    weights[lane_index()] =
        mine <= query ? weight_of(args, from, out_grad, list, query, mine).score_grad : 0;
    sync_warp();  // all weights are there
    add_weighted(sums, weights, from.keys, key, count, width);
    sync_warp();  // they may be overwritten
  }
  store_turned_back(args, packed_heads(args.out, args.heads, sequence, head).queries.row(query),
                    sums, query);
}

// Grid: keys; key heads; sequences. Sets the gradients of keys and values.
template <class T>
__global__ void __launch_bounds__(kWarp) plain_key_gradient_kernel(PlainAttention<T> args) {
  STARLING_DYNAMIC_SHARED(memory);
  const std::int64_t sequence = blockIdx.z, width = args.heads.width, tokens = args.heads.tokens;
  float *key_sums = plain_sums(memory, 0, width), *value_sums = plain_sums(memory, 1, width);
  float *score_grads = key_sums + width, *weights = value_sums + width;
  clear(key_sums, width);
  clear(value_sums, width);
  const std::int64_t key = blockIdx.x, group = args.heads.group(), first_head = blockIdx.y * group;
  for (std::int64_t head = first_head; head < first_head + group; ++head) {
    const auto from = packed_heads(args.qkv, args.heads, sequence, head);
    const auto out_grads = out_rows(args.out_grad, args.heads, sequence, head);
    const std::int64_t list = (sequence * args.heads.heads + head) * tokens;
    for (std::int64_t query = key; query < tokens; query += kWarp) {
      const std::int64_t mine = query + lane_index(),
                         count = tokens - query < kWarp ? tokens - query : kWarp;
      WeightAndGradient of{};
      if (mine < tokens) of = weight_of(args, from, out_grads.row(mine), list, mine, key);
      weights[lane_index()] = of.weight;
      score_grads[lane_index()] = of.score_grad;
      sync_warp();  // all weights are there
      add_weighted(key_sums, score_grads, from.queries, query, count, width);
      add_weighted(value_sums, weights, out_grads, query, count, width);
      sync_warp();  // they may be overwritten
    }
  }
  const auto to = packed_heads(args.out, args.heads, sequence, first_head);
  store_turned_back(args, to.keys.row(key), key_sums, key);
  store_sums(to.values.row(key), value_sums, width, 1.0F);
}

}  // namespace starling::cuda
