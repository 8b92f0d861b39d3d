#include "optim/outer_ad_psgd.h"

#include "optim/outer_steps.h"
#include "optim/vector_math.h"

namespace starling::optim {

ExchangePlan AdPsgd::plan(std::size_t /*peers*/) const {
  return {.audience = ExchangePlan::Audience::kPartner, .two_halves = true};
}

void AdPsgd::offer(ExchangeState& state, Parcel& parcel) const { offer_vector(state.fast, parcel); }

void AdPsgd::take(ExchangeState& state, const Parcel& own, const Parcel& combined) const {
  add_scaled_difference(state.fast, 1.0f, combined.values, own.values);
}

}  // namespace starling::optim
