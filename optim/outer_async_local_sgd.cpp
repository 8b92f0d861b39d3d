#include "optim/outer_async_local_sgd.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "optim/outer_steps.h"
#include "optim/vector_math.h"

namespace starling::optim {

ExchangePlan AsyncLocalSgd::plan(std::size_t /*peers*/) const {
  return {.audience = ExchangePlan::Audience::kServer, .waits = true};
}

void AsyncLocalSgd::offer(ExchangeState& state, Parcel& parcel) const {
  offer_displacement(state, parcel);
}

void AsyncLocalSgd::take(ExchangeState& state, const Parcel& /*own*/,
                         const Parcel& combined) const {
  STARLING_ASSERT(combined.values.size() == state.slow.size());
  std::copy(combined.values.begin(), combined.values.end(), state.slow.begin());
  restart_from_slow(state);
}

DelayedNesterovServer::DelayedNesterovServer(const OuterConfig& config, std::size_t peers,
                                             std::vector<float> start)
    : momentum_(config.momentum),
      learning_rate_(config.learning_rate),
      share_(config.momentum_share),
      buffered_max_(config.buffer == 0 ? peers : config.buffer),
      weights_(std::move(start)),
      momentum_sum_(weights_.size(), 0.0f),
      buffer_(weights_.size(), 0.0f) {
  STARLING_ASSERT(buffered_max_ > 0);
}

void DelayedNesterovServer::receive(std::span<const float> displacement) {
  STARLING_ASSERT(displacement.size() == weights_.size());
  const auto count = static_cast<float>(buffered_max_);
  float share = share_;
  add_scaled(buffer_, 1.0f, displacement);
  arrivals_ += 1;
  if (arrivals_ % buffered_max_ == 0) {
    for (float& value : momentum_sum_) value *= momentum_;
    add_scaled(momentum_sum_, 1.0f / count, buffer_);
    std::fill(buffer_.begin(), buffer_.end(), 0.0f);
    share = 1.0f - share_ * count + share_;
  }
  add_scaled(weights_, learning_rate_ * share * momentum_, momentum_sum_);
  add_scaled(weights_, learning_rate_ / count, displacement);
}

}  // namespace starling::optim
