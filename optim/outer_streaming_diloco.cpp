#include "optim/outer_streaming_diloco.h"

#include "optim/outer_steps.h"

namespace starling::optim {

ExchangePlan StreamingDiloco::plan(std::size_t /*peers*/) const {
  return {.audience = ExchangePlan::Audience::kEveryone,
          .waits = true,
          .overlap_steps = config_.overlap_steps};
}

void StreamingDiloco::offer(ExchangeState& state, Parcel& parcel) const {
  offer_displacement(state, parcel);
}

void StreamingDiloco::take(ExchangeState& state, const Parcel& /*own*/,
                           const Parcel& combined) const {
  nesterov_step({.momentum = config_.momentum, .learning_rate = config_.learning_rate}, state.slow,
                state.momentum, combined.values);
  mix(state.fast, config_.blend, state.slow);
}

}  // namespace starling::optim
