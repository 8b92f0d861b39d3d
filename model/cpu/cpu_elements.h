// Formulas of one row of elements, for loops that a function inlines, most of them cloned ones
// (base/vector_clones.h): used where a whole tensor is passed over, and where sums of a product are
// stored. Inside the room only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/cpu/cpu_exp.h"
#include "model/cpu/cpu_values.h"

namespace starling::model {

// What turns the pairs of one head: `half` cosines and sines of its position.
struct Turn {
  const float *cosines, *sines;
  std::int64_t half;
  float sign;
};

// `from` may be `to`.
template <class From, class To>
STARLING_INLINE void turn_head(const From* from, To* to, const Turn& by) {
  const float* __restrict__ cosines = by.cosines;
  const float* __restrict__ sines = by.sines;
#pragma omp simd
  for (std::int64_t i = 0; i < by.half; ++i) {
    const float first = as_float(from[i]), second = as_float(from[i + by.half]);
    const float sine = by.sign * sines[i];
    to[i] = rounded<To>(first * cosines[i] - second * sine);
    to[i + by.half] = rounded<To>(second * cosines[i] + first * sine);
  }
}

STARLING_INLINE float swiglu(float gate, float up) {
  return gate * up / (1.0F + vector_exp(-gate));
}

template <class Act>
STARLING_INLINE void swiglu_values(const Act* __restrict__ gate, const Act* __restrict__ up,
                                   Act* __restrict__ gated, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    gated[i] = rounded<Act>(swiglu(as_float(gate[i]), as_float(up[i])));
  }
}

template <class Act>
struct SwiGluValues {
  const Act *gate, *up;
  Act *gate_grad, *up_grad, *gated;
};

// `gradient` of what was gated, which is set again; may be the same.
template <class Gradient, class Act>
STARLING_INLINE void swiglu_backward_values(const Gradient* gradient, const SwiGluValues<Act>& of,
                                            std::int64_t count) {
  const Act* __restrict__ gate = of.gate;
  const Act* __restrict__ up = of.up;
  Act* __restrict__ gate_grad = of.gate_grad;
  Act* __restrict__ up_grad = of.up_grad;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float z = as_float(gate[i]), factor = as_float(up[i]);
    const float sigmoid = 1.0F / (1.0F + vector_exp(-z));
    const float scaled = as_float(gradient[i]) * sigmoid;
    gate_grad[i] = rounded<Act>(scaled * factor * (1.0F + z * (1.0F - sigmoid)));
    up_grad[i] = rounded<Act>(scaled * z);
    of.gated[i] = rounded<Act>(z * factor * sigmoid);
  }
}

// In pairs, and pairs of those: few additions wait for another.
template <std::int32_t count = kVector>
STARLING_INLINE float sum_of_lanes(const float* lanes) {
  if constexpr (count == 1) {
    return lanes[0];
  } else {
    return sum_of_lanes<count / 2>(lanes) + sum_of_lanes<count / 2>(lanes + count / 2);
  }
}

template <std::int32_t count = kVector>
STARLING_INLINE float largest_lane(const float* lanes) {
  if constexpr (count == 1) {
    return lanes[0];
  } else {
    const float left = largest_lane<count / 2>(lanes);
    const float right = largest_lane<count / 2>(lanes + count / 2);
    return left < right ? right : left;
  }
}

// Of the first `visible` scores; those up to the end of its vector may be read.
STARLING_INLINE float largest_score(const float* scores, std::int32_t visible) {
  float lanes[kVector];
  std::fill_n(lanes, kVector, scores[0]);
  for (std::int32_t key = 0; key < visible; key += kVector) {
#pragma omp simd
    for (std::int32_t j = 0; j < kVector; ++j) {
      const float score = key + j < visible ? scores[key + j] : lanes[j];
      lanes[j] = lanes[j] < score ? score : lanes[j];
    }
  }
  return largest_lane(lanes);
}

}  // namespace starling::model
