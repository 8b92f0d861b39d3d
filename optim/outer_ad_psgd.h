// AdPsgd: while a peer computes its gradient, it and a random other average their weights; the
// update then lands on the average. Nobody waits: what training did since the offer is kept, which
// is what the authors' program does by holding updates back until an averaging is through.
//
// Lian, Zhang, Zhang, Liu, "Asynchronous decentralized parallel stochastic gradient descent", ICML
// 2018 (arXiv 1710.06952): half of the peers start averagings and the other half answers, so that
// none is in two at once; an averaging per step, with weights of a half. Compared with the program
// of Assran et al. (facebookresearch/stochastic_gradient_push), not with the text. The inner
// optimizer is AdamW where the authors have SGD.
#pragma once

#include "optim/outer_exchange.h"

namespace starling::optim {

class AdPsgd final : public OuterExchange {
 public:
  std::string_view name() const override { return "ad_psgd"; }
  ExchangePlan plan(std::size_t peers) const override;
  void offer(ExchangeState& state, Parcel& parcel) const override;
  void take(ExchangeState& state, const Parcel& own, const Parcel& combined) const override;
};

}  // namespace starling::optim
