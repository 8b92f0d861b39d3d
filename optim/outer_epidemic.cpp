#include "optim/outer_epidemic.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "optim/outer_steps.h"
#include "optim/vector_math.h"

namespace starling::optim {

ExchangePlan Epidemic::plan(std::size_t peers) const {
  STARLING_ASSERT(peers >= 2);
  const auto log2 = static_cast<std::size_t>(std::bit_width(peers - 1));  // rounded up
  const std::size_t targets = targets_ == 0 ? log2 : targets_;
  return {.audience = ExchangePlan::Audience::kTargets,
          .count = static_cast<std::uint32_t>(std::min(targets, peers - 1)),
          .waits = true};
}

void Epidemic::offer(ExchangeState& state, Parcel& parcel) const {
  offer_vector(state.fast, parcel);
}

void Epidemic::take(ExchangeState& state, const Parcel& own, const Parcel& combined) const {
  add_scaled_difference(state.fast, 1.0f, combined.values, own.values);
}

}  // namespace starling::optim
