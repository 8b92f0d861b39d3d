// The kernel of cross entropy, one block a row of logits. A thread takes kCount elements next to
// each other, then those blockDim.x * kCount further on.
#pragma once

#include <cfloat>

#include "cuda/kernel_support.cuh"

namespace starling::cuda {

// Rows are read twice: the fewer are under way, the more of what is read again is still in the L2
// cache. Two blocks of these fill a multiprocessor.
inline constexpr unsigned kEntropyThreadsMax = 1024;

struct EntropyShape {
  std::int64_t vocabulary;
  float scale;
};

// The sum of exp(logit - largest) is kept for the largest so far (Milakov, Gimelshein, "Online
// normalizer calculation for softmax", 2018, algorithm 3), so that logits are read twice in all.
// The gradient may be where they are.
template <int kCount, class T>
__global__ void __launch_bounds__(kEntropyThreadsMax, 2)
    cross_entropy_kernel(T* gradient, float* losses, const float* logits,
                         const std::int32_t* targets, EntropyShape shape) {
  const float* row = logits + blockIdx.x * shape.vocabulary;
  T* gradient_row = gradient + blockIdx.x * shape.vocabulary;
  const std::int64_t first = threadIdx.x * kCount, step = blockDim.x * kCount;
  float largest = -FLT_MAX, sum = 0;
  for (std::int64_t i = first; i < shape.vocabulary; i += step) {
    const auto values = load_floats<kCount>(row + i);
    float next = largest;
    STARLING_UNROLL
    for (int k = 0; k < kCount; ++k) next = fmaxf(next, values.values[k]);
    sum *= expf(largest - next);
    STARLING_UNROLL
    for (int k = 0; k < kCount; ++k) sum += expf(values.values[k] - next);
    largest = next;
  }
  const float of_all = block_max(largest);
  const float total = block_sum(sum * expf(largest - of_all));  // in units of the largest
  const std::int32_t target = targets[blockIdx.x];
  const float inverse = 1.0F / total;
  if (threadIdx.x == 0) losses[blockIdx.x] = logf(total) + (of_all - row[target]);
  __syncthreads();  // the target's logit is read before its gradient takes the place
  for (std::int64_t i = first; i < shape.vocabulary; i += step) {
    auto values = load_floats<kCount>(row + i);
    STARLING_UNROLL
    for (int k = 0; k < kCount; ++k) {
      const float one = i + k == target ? 1.0F : 0.0F;
      values.values[k] = shape.scale * (expf(values.values[k] - of_all) * inverse - one);
    }
    store_floats(gradient_row + i, values);
  }
}

}  // namespace starling::cuda
