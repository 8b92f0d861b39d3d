// Element-wise kernels on ranges of floats, and the sum of squares. Memory sets their speed, so a
// thread moves 16 bytes at a time wherever the ranges allow it: FlatCut says where. Any grid gives
// the same bits; of the sums' grid, the size of the range alone decides.
#pragma once

#include "cuda/kernel_support.cuh"
#include "optim/adamw_math.h"

namespace starling::cuda {

inline constexpr std::size_t kFlatPack = 4;  // floats of one access
inline constexpr unsigned kFlatThreads = 256;
inline constexpr unsigned kNormBlocksMax = 1024;

// `head` floats, then packs, then what is left. Ranges that are not aligned alike have no packs.
struct FlatCut {
  std::size_t size = 0, head = 0, packs = 0;
};

// For every pack and every other element of the range: both are called with the first index.
template <class Pack, class One>
__device__ __forceinline__ void for_each_flat(const FlatCut& cut, const Pack& pack,
                                              const One& one) {
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = first; i < cut.packs; i += stride) pack(cut.head + i * kFlatPack);
  const std::size_t packed = cut.packs * kFlatPack;
  for (std::size_t i = first; i < cut.size - packed; i += stride) {
    one(i < cut.head ? i : i + packed);
  }
}

using FlatPack = Pack<float, static_cast<int>(kFlatPack)>;

__device__ __forceinline__ FlatPack load_flat(const float* at) {
  return load_pack<static_cast<int>(kFlatPack)>(at);
}

__global__ void __launch_bounds__(kFlatThreads)
    fill_kernel(FlatCut cut, float* target, float value) {
  FlatPack values;
  STARLING_UNROLL
  for (float& each : values.values) each = value;
  for_each_flat(
      cut, [&](std::size_t at) { store_floats(target + at, values); },
      [&](std::size_t at) { target[at] = value; });
}

__global__ void __launch_bounds__(kFlatThreads)
    add_scaled_kernel(FlatCut cut, float* target, float scale, const float* source, bf16* rounded) {
  const auto pack = [&](std::size_t at) {
    FlatPack sums = load_flat(target + at);
    const FlatPack added = load_flat(source + at);
    STARLING_UNROLL
    for (std::size_t i = 0; i < kFlatPack; ++i) sums.values[i] += scale * added.values[i];
    store_floats(target + at, sums);
    if (rounded != nullptr) store_floats(rounded + at, sums);
  };
  const auto one = [&](std::size_t at) {
    target[at] += scale * source[at];
    if (rounded != nullptr) store(rounded + at, target[at]);
  };
  for_each_flat(cut, pack, one);
}

__global__ void __launch_bounds__(kFlatThreads)
    square_sums_kernel(FlatCut cut, double* sums, const float* source) {
  double sum = 0;
  const auto add = [&](float value) { sum += static_cast<double>(value) * value; };
  const auto pack = [&](std::size_t at) {
    const FlatPack values = load_flat(source + at);
    STARLING_UNROLL
    for (const float value : values.values) add(value);
  };
  for_each_flat(cut, pack, [&](std::size_t at) { add(source[at]); });
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// One block.
__global__ void __launch_bounds__(kFlatThreads)
    add_sums_kernel(const double* sums, unsigned count, float* target) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) sum += sums[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) target[0] = static_cast<float>(sum);
}

struct AdamWPointers {
  float *param, *moment1, *moment2;
  const float *gradient, *squared_norm;
  const std::size_t* borders;
  std::size_t border_count;
  bf16* rounded;  // null: not wanted
};

// The factors of elements that follow one another, from `first` on.
class DecayFactors {
 public:
  __device__ DecayFactors(const AdamWPointers& at, std::size_t first, float factor)
      : borders_(at.borders), count_(at.border_count), element_(first), factor_(factor) {
    std::size_t end = count_;
    while (passed_ < end) {
      const std::size_t middle = passed_ + (end - passed_) / 2;
      if (borders_[middle] <= first) {
        passed_ = middle + 1;
      } else {
        end = middle;
      }
    }
    next_ = border();
  }
  __device__ float next() {
    if (element_ == next_) {
      ++passed_;
      next_ = border();
    }
    ++element_;
    return passed_ % 2 == 0 ? factor_ : 1.0F;
  }

 private:
  __device__ std::size_t border() const {
    return passed_ < count_ ? borders_[passed_] : ~std::size_t{0};
  }

  const std::size_t* borders_;
  std::size_t count_, passed_ = 0, element_, next_;
  float factor_;
};

__device__ __forceinline__ optim::AdamWElement adamw_step(optim::AdamWElement state, float gradient,
                                                          float decay_factor,
                                                          optim::AdamWScalars scalars) {
  scalars.decay_factor = decay_factor;
  return optim::adamw_element(state, gradient, scalars);
}

__global__ void __launch_bounds__(kFlatThreads)
    adamw_kernel(FlatCut cut, optim::AdamWScalars scalars, AdamWPointers at) {
  const float squared_norm = at.squared_norm[0];
  if (!std::isfinite(squared_norm)) return;
  const float gradient_scale = optim::clip_scale(squared_norm, scalars.clip_norm);
  const auto pack = [&](std::size_t i) {
    FlatPack param = load_flat(at.param + i);
    FlatPack moment1 = load_flat(at.moment1 + i), moment2 = load_flat(at.moment2 + i);
    const FlatPack gradient = load_flat(at.gradient + i);
    DecayFactors factors(at, i, scalars.decay_factor);
    STARLING_UNROLL
    for (std::size_t k = 0; k < kFlatPack; ++k) {
      const optim::AdamWElement next =
          adamw_step({param.values[k], moment1.values[k], moment2.values[k]},
                     gradient.values[k] * gradient_scale, factors.next(), scalars);
      param.values[k] = next.param;
      moment1.values[k] = next.moment1;
      moment2.values[k] = next.moment2;
    }
    store_floats(at.param + i, param);
    store_floats(at.moment1 + i, moment1);
    store_floats(at.moment2 + i, moment2);
    if (at.rounded != nullptr) store_floats(at.rounded + i, param);
  };
  const auto one = [&](std::size_t i) {
    const optim::AdamWElement next =
        adamw_step({at.param[i], at.moment1[i], at.moment2[i]}, at.gradient[i] * gradient_scale,
                   DecayFactors(at, i, scalars.decay_factor).next(), scalars);
    at.param[i] = next.param;
    at.moment1[i] = next.moment1;
    at.moment2[i] = next.moment2;
    if (at.rounded != nullptr) store(at.rounded + i, next.param);
  };
  for_each_flat(cut, pack, one);
}

}  // namespace starling::cuda
