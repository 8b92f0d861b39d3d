// PairGossip: the default outer rule, asynchronous additive pair gossip. Its outer step is the
// heavy ball of optim/outer_math.h, as far as optim/outer_stage.h allows; momentum never sees what
// other peers did.
#pragma once

#include "optim/outer_rule.h"

namespace starling::optim {

class PairGossip final : public OuterRule {
 public:
  explicit PairGossip(const OuterConfig& config) : config_(config) {}

  std::string_view name() const override { return "pair_gossip"; }
  bool exchanges() const override { return true; }
  OuterReport step(const OuterStage& stage, std::span<float> slow, std::span<float> momentum,
                   std::span<float> local) const override;

 private:
  const OuterConfig config_;
};

}  // namespace starling::optim
