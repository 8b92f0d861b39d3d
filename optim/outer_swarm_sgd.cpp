#include "optim/outer_swarm_sgd.h"

#include <algorithm>

#include "base/assert.h"
#include "optim/outer_steps.h"
#include "optim/vector_math.h"

namespace starling::optim {

ExchangePlan SwarmSgd::plan(std::size_t /*peers*/) const {
  return {.audience = ExchangePlan::Audience::kPartner};
}

void SwarmSgd::offer(ExchangeState& state, Parcel& parcel) const {
  STARLING_ASSERT(state.slow.size() == state.fast.size());
  answer(state, parcel);
  std::copy(state.fast.begin(), state.fast.end(), state.slow.begin());
}

void SwarmSgd::answer(ExchangeState& state, Parcel& parcel) const {
  offer_vector(state.slow, parcel);
}

void SwarmSgd::take(ExchangeState& state, const Parcel& own, const Parcel& combined) const {
  add_scaled_difference(state.slow, 1.0f, combined.values, own.values);
  add_scaled_difference(state.fast, 1.0f, combined.values, own.values);
}

}  // namespace starling::optim
