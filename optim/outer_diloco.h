// Diloco: every H inner steps all peers average their displacements and make one step of Nesterov's
// momentum with the mean (nesterov_element); everybody goes on from the same weights. Peers wait.
//
// Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023
// (arXiv 2311.08105), algorithm 1; the moments of AdamW stay with each peer (section 6.1). The
// authors took H = 500, momentum 0.9 and learning rate 0.7. Charles et al.,
// "Communication-efficient language model training scales reliably and robustly", 2025 (arXiv
// 2503.09799), found the best rate to grow with the number of peers and with H: 0.6 to 0.8 for 2 to
// 8 peers at H = 30.
#pragma once

#include "optim/outer_exchange.h"
#include "optim/outer_math.h"

namespace starling::optim {

class Diloco final : public OuterExchange {
 public:
  explicit Diloco(const OuterConfig& config)
      : scalars_{.momentum = config.momentum, .learning_rate = config.learning_rate} {}

  std::string_view name() const override { return "diloco"; }
  ExchangePlan plan(std::size_t peers) const override;
  void offer(ExchangeState& state, Parcel& parcel) const override;
  void take(ExchangeState& state, const Parcel& own, const Parcel& combined) const override;

 private:
  const NesterovScalars scalars_;
};

}  // namespace starling::optim
