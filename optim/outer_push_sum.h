// PushSum: stochastic gradient push. A peer holds a sum x (`slow`) and its mass w; z = x / w
// (`fast`) is what it trains with. After a step it adds its update to x, keeps one half of (x, w)
// and sends the other to the next peer of a rotation; what comes is added. The sums of x and of w
// over the swarm change by training alone, so the mean of z is right however late a half arrives.
//
//   x = x + (fast - x / w);  (x, w) = (x, w) / 2, sent and kept
//   (x, w) = (x, w) + what came;  fast = x / w
//
// Assran, Loizou, Ballas, Rabbat, "Stochastic gradient push for distributed deep learning", ICML
// 2019 (arXiv 1811.10792), algorithm 1, one out-neighbour a step on the directed exponential graph.
// The authors' program (facebookresearch/stochastic_gradient_push) takes the same distances
// backwards too, in turn. overlap_steps = tau is their overlap SGP; they took 0 and 1.
#pragma once

#include "optim/outer_exchange.h"

namespace starling::optim {

class PushSum final : public OuterExchange {
 public:
  explicit PushSum(const OuterConfig& config) : overlap_steps_(config.overlap_steps) {}

  std::string_view name() const override { return "push_sum"; }
  ExchangePlan plan(std::size_t peers) const override;
  void offer(ExchangeState& state, Parcel& parcel) const override;
  // The sum, of weights too.
  void combine(std::span<const Parcel* const> parcels, Parcel& combined) const override;
  void take(ExchangeState& state, const Parcel& own, const Parcel& combined) const override;

 private:
  const std::uint32_t overlap_steps_;
};

}  // namespace starling::optim
