#include "optim/outer_diloco.h"

#include "optim/outer_steps.h"

namespace starling::optim {

ExchangePlan Diloco::plan(std::size_t /*peers*/) const {
  return {.audience = ExchangePlan::Audience::kEveryone, .waits = true};
}

void Diloco::offer(ExchangeState& state, Parcel& parcel) const {
  offer_displacement(state, parcel);
}

void Diloco::take(ExchangeState& state, const Parcel& /*own*/, const Parcel& combined) const {
  nesterov_step(scalars_, state.slow, state.momentum, combined.values);
  restart_from_slow(state);
}

}  // namespace starling::optim
