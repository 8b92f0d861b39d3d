// Kernels of RMSNorm and its backward, one block a row. A thread takes kCount elements next to each
// other, then those blockDim.x * kCount further on.
//
// The gradient of the gain is a sum over all rows. Its order is fixed: kGainBlocks blocks add up
// the rows i, i + kGainBlocks, ... each, and a second kernel adds up what they found.
#pragma once

#include "cuda/gpu_memory.h"
#include "cuda/kernel_support.cuh"

namespace starling::cuda {

inline constexpr unsigned kRowThreadsMax = 512;  // of a block whose rows are wide

struct NormShape {
  std::int64_t rows, width;
  float epsilon = 0;
};

template <class T>
struct NormRows {
  T* out;              // (rows, width), set; with a branch, holds it before
  float* inverse_rms;  // (rows), set
  const float *in, *gain;
  float* sum = nullptr;  // (rows, width): with a branch, in + branch, of which the norm is
};

// Where a row is one pack for each thread, it is read once.
template <int kCount, class T, bool kBranch>
__global__ void __launch_bounds__(kRowThreadsMax) rms_norm_kernel(NormRows<T> of, NormShape shape) {
  const std::int64_t base = blockIdx.x * shape.width;
  const std::int64_t first = threadIdx.x * kCount, step = blockDim.x * kCount;
  const bool is_one_pack = step >= shape.width;
  Pack<float, kCount> values{};
  float squares = 0;
  for (std::int64_t i = first; i < shape.width; i += step) {
    values = load_floats<kCount>(of.in + base + i);
    if constexpr (kBranch) {
      const auto branch = load_floats<kCount>(of.out + base + i);
      STARLING_UNROLL
      for (int k = 0; k < kCount; ++k) values.values[k] += branch.values[k];
      store_floats(of.sum + base + i, values);
    }
    STARLING_UNROLL
    for (int k = 0; k < kCount; ++k) squares += values.values[k] * values.values[k];
  }
  const float mean = block_sum(squares) / static_cast<float>(shape.width);
  const float inverse = 1.0F / sqrtf(mean + shape.epsilon);
  if (threadIdx.x == 0) of.inverse_rms[blockIdx.x] = inverse;
  for (std::int64_t i = first; i < shape.width; i += step) {
    if (!is_one_pack) values = load_floats<kCount>((kBranch ? of.sum : of.in) + base + i);
    const auto gains = load_floats<kCount>(of.gain + i);
    STARLING_UNROLL
    for (int k = 0; k < kCount; ++k) values.values[k] *= inverse * gains.values[k];
    store_floats(of.out + base + i, values);
  }
}

template <class T>
struct NormGradients {
  float* in_grad;       // (rows, width), added to
  T* in_grad_rounded;   // (rows, width), set; of floats it is in_grad
  float* gain_partial;  // (gridDim.x, width), set
  const T* out_grad;
  const float *in, *gain, *inverse_rms;
};

// Every thread meets the same columns in each row, so its sums of the gain need no barrier. Where a
// row is one pack for each thread, it is read once.
template <int kCount, class T>
__global__ void __launch_bounds__(kRowThreadsMax)
    rms_norm_backward_kernel(NormGradients<T> of, NormShape shape) {
  STARLING_DYNAMIC_SHARED(memory);
  auto* gain_sums = reinterpret_cast<float*>(memory);  // (width)
  const std::int64_t first = threadIdx.x * kCount, step = blockDim.x * kCount;
  const bool is_one_pack = step >= shape.width;
  for (std::int64_t i = first; i < shape.width; i += step) {
    store_floats(gain_sums + i, Pack<float, kCount>{});
  }
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t base = row * shape.width;
    const float inverse = of.inverse_rms[row];
    Pack<float, kCount> in{}, gradient{}, gain{}, sum{};
    const auto read = [&](std::int64_t i) {
      in = load_floats<kCount>(of.in + base + i);
      gradient = load_floats<kCount>(of.out_grad + base + i);
      gain = load_floats<kCount>(of.gain + i);
      sum = load_floats<kCount>(of.in_grad + base + i);
    };
    float along = 0;  // mean of the gradient along the normalized input
    for (std::int64_t i = first; i < shape.width; i += step) {
      read(i);
      auto gains = load_floats<kCount>(gain_sums + i);
      STARLING_UNROLL
      for (int k = 0; k < kCount; ++k) {
        const float normed = gradient.values[k] * in.values[k] * inverse;
        along += normed * gain.values[k];
        gains.values[k] += normed;
      }
      store_floats(gain_sums + i, gains);
    }
    along = block_sum(along) / static_cast<float>(shape.width);
    for (std::int64_t i = first; i < shape.width; i += step) {
      if (!is_one_pack) read(i);
      STARLING_UNROLL
      for (int k = 0; k < kCount; ++k) {
        sum.values[k] +=
            inverse * (gradient.values[k] * gain.values[k] - in.values[k] * inverse * along);
      }
      store_floats(of.in_grad + base + i, sum);
      if constexpr (sizeof(T) == sizeof(bf16)) store_floats(of.in_grad_rounded + base + i, sum);
    }
  }
  for (std::int64_t i = first; i < shape.width; i += step) {
    store_floats(of.gain_partial + blockIdx.x * shape.width + i,
                 load_floats<kCount>(gain_sums + i));
  }
}

// sums (columns) = the rows of partial, added to what was there if `adds`. A block has a warp's
// width of columns: each of its warps adds up the rows w, w + kAddWarps, ..., and the first one
// what all of them found, in their order.
inline constexpr unsigned kAddWarps = 16;
static __global__ void __launch_bounds__(kAddWarps* kWarp)
    add_rows_kernel(float* sums, const float* partial, std::int64_t rows, std::int64_t columns,
                    bool adds) {
  constexpr int kAtOnce = 16;  // loads under way
  STARLING_SHARED(float, of_warps, kAddWarps* kWarp);
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + lane_index();
  const bool is_there = column < columns;
  float sum = 0;
  for (std::int64_t first = warp_index(); first < rows; first += kAtOnce * kAddWarps) {
    float values[kAtOnce];
    STARLING_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      const std::int64_t row = first + k * std::int64_t{kAddWarps};
      values[k] = is_there && row < rows ? partial[row * columns + column] : 0;
    }
    STARLING_UNROLL
    for (int k = 0; k < kAtOnce; ++k) sum += values[k];
  }
  of_warps[threadIdx.x] = sum;
  __syncthreads();
  if (warp_index() > 0 || !is_there) return;
  sum = 0;
  STARLING_UNROLL
  for (unsigned warp = 0; warp < kAddWarps; ++warp) sum += of_warps[warp * kWarp + lane_index()];
  sums[column] = adds ? sums[column] + sum : sum;
}

}  // namespace starling::cuda
