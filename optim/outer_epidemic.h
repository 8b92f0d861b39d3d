// Epidemic: every round a peer sends its weights to s random others and goes on from the mean of
// its own and all that came, be it none or many. The mean of the swarm is kept only on average.
// Rounds are common: a peer waits until all that was sent in the round has come.
//
// de Vos, Farhadkhani, Guerraoui, Kermarrec, Pires, Sharma, "Epidemic learning: boosting
// decentralized learning with randomized communication", NeurIPS 2023 (arXiv 2310.01972), EL-Local:
// each peer draws for itself, uniformly, without repetition; who hears nothing keeps its weights. A
// round is one local step, as in the authors' theory; s is about log2 of the peers, here rounded
// up.
#pragma once

#include "optim/outer_exchange.h"

namespace starling::optim {

class Epidemic final : public OuterExchange {
 public:
  explicit Epidemic(const OuterConfig& config) : targets_(config.targets) {}

  std::string_view name() const override { return "epidemic"; }
  ExchangePlan plan(std::size_t peers) const override;
  void offer(ExchangeState& state, Parcel& parcel) const override;
  void take(ExchangeState& state, const Parcel& own, const Parcel& combined) const override;

 private:
  const std::uint32_t targets_;
};

}  // namespace starling::optim
