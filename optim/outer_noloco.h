// Noloco: every H inner steps the peers meet in random groups of n. With D the mean displacement of
// the group and S the mean of its slow weights:
//
//   momentum = alpha * momentum + beta * D - gamma * (slow - S);  slow = slow + momentum
//
// and the peer goes on from its slow weights. Peers wait for their group alone.
//
// Kolehmainen, Blagoev, Donaghy, Ersoy, Nies, "NoLoCo: no-all-reduce low communication training
// method for large models", 2025 (arXiv 2506.10911), eqs. 1 to 3. The paper prints a minus before
// beta in eq. 2, which would walk uphill; its own expectation (eq. 32) and the authors' program
// have a plus. In spite of the name it is heavy ball. Settings of the paper: n = 2, H = 50, alpha
// 0.5, beta 0.7; it does not state gamma, the program takes it equal to beta. Bounds:
// group_pull_bound(). A parcel is displacement and slow weights, as in the authors' program: twice
// the model travels.
#pragma once

#include "optim/outer_exchange.h"

namespace starling::optim {

class Noloco final : public OuterExchange {
 public:
  explicit Noloco(const OuterConfig& config) : config_(config) {}

  std::string_view name() const override { return "noloco"; }
  ExchangePlan plan(std::size_t peers) const override;
  void offer(ExchangeState& state, Parcel& parcel) const override;
  void take(ExchangeState& state, const Parcel& own, const Parcel& combined) const override;

 private:
  const OuterConfig config_;
};

}  // namespace starling::optim
