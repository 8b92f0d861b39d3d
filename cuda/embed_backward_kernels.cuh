// The gradient of embeddings, deterministic and without atomics: each block owns a range of the
// vocabulary and a range of columns, looks through all tokens for those of its range, and adds
// their rows in the order of the tokens. A token's sum over kEmbedTokens tokens is kept in
// registers, so that a frequent token costs reads of gradients alone.
//
// Every block reads all token ids (4 bytes each, from the cache), and one block of each range of
// columns reads each gradient.
#pragma once

#include "cuda/kernel_support.cuh"

namespace starling::cuda {

inline constexpr unsigned kEmbedThreads = 128;
inline constexpr unsigned kEmbedTokens = 1024;  // looked through at a time
inline constexpr unsigned kEmbedIdsMax = 128;   // of a block's range

struct EmbedGradient {
  float* weight_grad;  // (vocabulary, width), added to
  const float* out_grad;
  const std::int32_t* tokens;
  std::int64_t count, width;
  std::int32_t ids;  // of a block, at most kEmbedIdsMax
};

// Where the ids of a range are among kEmbedTokens tokens: each warp looks through a piece of them
// and lists what it finds, in order, at the place of its piece.
struct EmbedMatches {
  unsigned* places;    // (kEmbedTokens): from `base` on
  unsigned* counts;    // (warps)
  unsigned* is_there;  // (kEmbedIdsMax)
};

__device__ __forceinline__ void find_matches(const EmbedMatches& matches, const EmbedGradient& of,
                                             std::int64_t base, std::int32_t first_id) {
  constexpr unsigned kPiece = kEmbedTokens / (kEmbedThreads / kWarp);
  for (unsigned i = threadIdx.x; i < kEmbedIdsMax; i += kEmbedThreads) matches.is_there[i] = 0;
  __syncthreads();
  unsigned found = 0;
  for (unsigned i = 0; i < kPiece; i += kWarp) {
    const unsigned place = warp_index() * kPiece + i + lane_index();
    const std::int32_t id = base + place < of.count ? of.tokens[base + place] - first_id : -1;
    const bool is_ours = id >= 0 && id < of.ids;
    const unsigned ours = ballot(is_ours);
    if (is_ours) {
      unsigned before = 0;
      for (unsigned bits = ours & ((1U << lane_index()) - 1); bits != 0; bits &= bits - 1) ++before;
      matches.places[warp_index() * kPiece + found + before] = place;
      matches.is_there[id] = 1;
    }
    for (unsigned bits = ours; bits != 0; bits &= bits - 1) ++found;
  }
  if (lane_index() == 0) matches.counts[warp_index()] = found;
  __syncthreads();
}

// This thread's columns of weight_grad[id] += the rows of id among the matches.
template <int kCount>
__device__ __forceinline__ void add_matches(const EmbedMatches& matches, const EmbedGradient& of,
                                            std::int64_t base, std::int32_t id,
                                            std::int64_t column) {
  constexpr unsigned kPiece = kEmbedTokens / (kEmbedThreads / kWarp);
  float* target = of.weight_grad + id * of.width + column;
  auto sum = load_floats<kCount>(target);
  for (unsigned warp = 0; warp < kEmbedThreads / kWarp; ++warp) {
    for (unsigned i = 0; i < matches.counts[warp]; ++i) {
      const std::int64_t token = base + matches.places[warp * kPiece + i];
      if (of.tokens[token] != id) continue;
      const auto row = load_floats<kCount>(of.out_grad + token * of.width + column);
      STARLING_UNROLL
      for (int k = 0; k < kCount; ++k) sum.values[k] += row.values[k];
    }
  }
  store_floats(target, sum);
}

// No __launch_bounds__: with them nvcc 13.0 spills registers, which these few threads need not.
template <int kCount>
__global__ void embed_backward_kernel(EmbedGradient of) {
  STARLING_SHARED(unsigned, places, kEmbedTokens);
  STARLING_SHARED(unsigned, counts, kEmbedThreads / kWarp);
  STARLING_SHARED(unsigned, is_there, kEmbedIdsMax);
  const EmbedMatches matches{&places[0], &counts[0], &is_there[0]};
  const auto first_id = static_cast<std::int32_t>(blockIdx.x) * of.ids;
  const std::int64_t column =
      (static_cast<std::int64_t>(blockIdx.y) * kEmbedThreads + threadIdx.x) * kCount;
  for (std::int64_t base = 0; base < of.count; base += kEmbedTokens) {
    find_matches(matches, of, base, first_id);
    for (std::int32_t id = 0; id < of.ids; ++id) {
      if (matches.is_there[id] == 0 || column >= of.width) continue;
      add_matches<kCount>(matches, of, base, first_id + id, column);
    }
    __syncthreads();  // before the next ones are listed
  }
}

}  // namespace starling::cuda
