// AllReduce: data-parallel training. Every step, all peers average their gradients and make the
// same inner update; the baseline that local-step methods are measured against. A weight of a
// parcel is what a peer's batch counts (its tokens, where batches differ).
//
// Synchronous SGD with large batches as in Goyal et al., "Accurate, large minibatch SGD: training
// ImageNet in 1 hour", 2017 (arXiv 1706.02677), section 3, eq. 2; here the inner optimizer is
// AdamW, and gradients are clipped after they were averaged.
#pragma once

#include "optim/outer_exchange.h"

namespace starling::optim {

class AllReduce final : public OuterExchange {
 public:
  std::string_view name() const override { return "all_reduce"; }
  ExchangePlan plan(std::size_t peers) const override;
  void offer(ExchangeState& state, Parcel& parcel) const override;
  void take(ExchangeState& state, const Parcel& own, const Parcel& combined) const override;
};

}  // namespace starling::optim
