#include "optim/outer_all_reduce.h"

#include <algorithm>

#include "base/assert.h"
#include "optim/outer_steps.h"

namespace starling::optim {

ExchangePlan AllReduce::plan(std::size_t /*peers*/) const {
  return {.when = ExchangePlan::When::kGradient,
          .audience = ExchangePlan::Audience::kEveryone,
          .waits = true};
}

void AllReduce::offer(ExchangeState& state, Parcel& parcel) const {
  offer_vector(state.gradient, parcel);
}

void AllReduce::take(ExchangeState& state, const Parcel& /*own*/, const Parcel& combined) const {
  STARLING_ASSERT(combined.values.size() == state.gradient.size());
  std::copy(combined.values.begin(), combined.values.end(), state.gradient.begin());
}

}  // namespace starling::optim
