#include "optim/outer_noloco.h"

#include <algorithm>

#include "base/assert.h"
#include "base/vector_clones.h"
#include "optim/outer_steps.h"

namespace starling::optim {

namespace {

struct NolocoScalars {
  float momentum, learning_rate, group_pull;
};

STARLING_VECTOR_CLONES
void noloco_loop(const NolocoScalars& scalars, float* __restrict slow, float* __restrict momentum,
                 const float* __restrict displacement, const float* __restrict group_slow,
                 std::size_t count) {
  const NolocoScalars fixed = scalars;
  for (std::size_t i = 0; i < count; ++i) {
    momentum[i] = fixed.momentum * momentum[i] + fixed.learning_rate * displacement[i] -
                  fixed.group_pull * (slow[i] - group_slow[i]);
    slow[i] += momentum[i];
  }
}

}  // namespace

ExchangePlan Noloco::plan(std::size_t peers) const {
  return {.audience = ExchangePlan::Audience::kGroup,
          .count = static_cast<std::uint32_t>(std::min<std::size_t>(config_.group, peers)),
          .waits = true,
          .vectors = 2};
}

void Noloco::offer(ExchangeState& state, Parcel& parcel) const {
  const std::size_t count = state.slow.size();
  parcel.values.resize(2 * count);
  write_displacement(state, std::span(parcel.values).first(count));
  std::copy(state.slow.begin(), state.slow.end(), parcel.values.data() + count);
  parcel.weight = 1.0;
}

void Noloco::take(ExchangeState& state, const Parcel& /*own*/, const Parcel& combined) const {
  const std::size_t count = state.slow.size();
  STARLING_ASSERT(state.momentum.size() == count);
  STARLING_ASSERT(combined.values.size() == 2 * count);
  noloco_loop({config_.momentum, config_.learning_rate, config_.group_pull}, state.slow.data(),
              state.momentum.data(), combined.values.data(), combined.values.data() + count, count);
  restart_from_slow(state);
}

}  // namespace starling::optim
