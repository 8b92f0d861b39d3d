// SwarmSgd: random pairs that never wait. Each peer shows others the copy of its weights from
// before its present local steps (`slow`); a pair averages those copies, and local steps stay on
// top:
//
//   fast_i = (slow_i + slow_j) / 2 + (fast_i - slow_i), and slow_i = (slow_i + slow_j) / 2; j alike
//
// After H local steps a peer offers its copy to a random other and takes its weights as the new
// copy.
//
// Nadiradze, Sabour, Davies, Li, Alistarh, "Asynchronous decentralized SGD with quantized and local
// updates", NeurIPS 2021 (arXiv 1910.12308), the non-blocking form; copies travel as float32 here,
// not quantized. H is a few steps there, 3 by default here. Written after a summary, not the text.
#pragma once

#include "optim/outer_exchange.h"

namespace starling::optim {

class SwarmSgd final : public OuterExchange {
 public:
  std::string_view name() const override { return "swarm_sgd"; }
  ExchangePlan plan(std::size_t peers) const override;
  void offer(ExchangeState& state, Parcel& parcel) const override;
  void answer(ExchangeState& state, Parcel& parcel) const override;
  void take(ExchangeState& state, const Parcel& own, const Parcel& combined) const override;
};

}  // namespace starling::optim
