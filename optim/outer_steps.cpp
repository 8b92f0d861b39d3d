#include "optim/outer_steps.h"

#include <algorithm>
#include <cstddef>

#include "base/assert.h"
#include "base/vector_clones.h"

namespace starling::optim {

namespace {

STARLING_VECTOR_CLONES
void difference_loop(float* __restrict target, const float* __restrict left,
                     const float* __restrict right, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) target[i] = left[i] - right[i];
}

STARLING_VECTOR_CLONES
void nesterov_loop(const NesterovScalars& scalars, float* __restrict slow,
                   float* __restrict momentum, const float* __restrict displacement,
                   std::size_t count) {
  const NesterovScalars fixed = scalars;
  for (std::size_t i = 0; i < count; ++i) {
    const NesterovElement next = nesterov_element({slow[i], momentum[i]}, displacement[i], fixed);
    slow[i] = next.slow;
    momentum[i] = next.momentum;
  }
}

STARLING_VECTOR_CLONES
void mix_loop(float* __restrict target, float kept, const float* __restrict source,
              std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    target[i] = kept * target[i] + (1.0f - kept) * source[i];
  }
}

}  // namespace

void write_displacement(const ExchangeState& state, std::span<float> target) {
  STARLING_ASSERT(state.slow.size() == state.fast.size());
  STARLING_ASSERT(target.size() == state.fast.size());
  difference_loop(target.data(), state.fast.data(), state.slow.data(), target.size());
}

void offer_displacement(const ExchangeState& state, Parcel& parcel) {
  parcel.values.resize(state.fast.size());
  write_displacement(state, parcel.values);
  parcel.weight = 1.0;
}

void offer_vector(std::span<const float> values, Parcel& parcel) {
  parcel.values.assign(values.begin(), values.end());
  parcel.weight = 1.0;
}

void restart_from_slow(ExchangeState& state) {
  STARLING_ASSERT(state.slow.size() == state.fast.size());
  std::copy(state.slow.begin(), state.slow.end(), state.fast.begin());
}

void mix(std::span<float> target, float kept, std::span<const float> source) {
  STARLING_ASSERT(source.size() == target.size());
  mix_loop(target.data(), kept, source.data(), target.size());
}

void nesterov_step(const NesterovScalars& scalars, std::span<float> slow, std::span<float> momentum,
                   std::span<const float> displacement) {
  STARLING_ASSERT(momentum.size() == slow.size());
  STARLING_ASSERT(displacement.size() == slow.size());
  nesterov_loop(scalars, slow.data(), momentum.data(), displacement.data(), slow.size());
}

}  // namespace starling::optim
