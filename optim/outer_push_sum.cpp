#include "optim/outer_push_sum.h"

#include <cstddef>

#include "base/assert.h"
#include "base/vector_clones.h"
#include "optim/vector_math.h"

namespace starling::optim {

namespace {

// Of one call for all elements: the sum's 1 / w before, and after.
struct Inverses {
  float before, after;
};

STARLING_VECTOR_CLONES
void push_loop(float inverse, float* __restrict sum, float* __restrict fast, float* __restrict half,
               std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float whole = sum[i] + (fast[i] - inverse * sum[i]);
    fast[i] = inverse * whole;
    half[i] = 0.5f * whole;
    sum[i] = half[i];
  }
}

STARLING_VECTOR_CLONES
void receive_loop(const Inverses& inverses, float* __restrict sum, float* __restrict fast,
                  const float* __restrict come, std::size_t count) {
  const Inverses fixed = inverses;
  for (std::size_t i = 0; i < count; ++i) {
    const float before = fixed.before * sum[i];
    sum[i] += come[i];
    fast[i] += fixed.after * sum[i] - before;
  }
}

}  // namespace

ExchangePlan PushSum::plan(std::size_t /*peers*/) const {
  return {.audience = ExchangePlan::Audience::kNextInRotation,
          .waits = true,
          .overlap_steps = overlap_steps_};
}

void PushSum::offer(ExchangeState& state, Parcel& parcel) const {
  STARLING_ASSERT(state.slow.size() == state.fast.size());
  STARLING_ASSERT(state.mass > 0.0);
  parcel.values.resize(state.slow.size());
  push_loop(static_cast<float>(1.0 / state.mass), state.slow.data(), state.fast.data(),
            parcel.values.data(), parcel.values.size());
  state.mass *= 0.5;
  parcel.weight = state.mass;
}

void PushSum::combine(std::span<const Parcel* const> parcels, Parcel& combined) const {
  STARLING_ASSERT(!parcels.empty());
  combined.values = parcels.front()->values;
  combined.weight = parcels.front()->weight;
  for (const Parcel* parcel : parcels.subspan(1)) {
    add_scaled(combined.values, 1.0f, parcel->values);
    combined.weight += parcel->weight;
  }
}

void PushSum::take(ExchangeState& state, const Parcel& /*own*/, const Parcel& combined) const {
  STARLING_ASSERT(state.slow.size() == state.fast.size());
  STARLING_ASSERT(combined.values.size() == state.slow.size());
  const Inverses inverses = {.before = static_cast<float>(1.0 / state.mass),
                             .after = static_cast<float>(1.0 / (state.mass + combined.weight))};
  receive_loop(inverses, state.slow.data(), state.fast.data(), combined.values.data(),
               combined.values.size());
  state.mass += combined.weight;
}

}  // namespace starling::optim
