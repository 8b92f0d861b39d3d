// PairGossip: the default outer rule, asynchronous additive pair gossip. Its outer step is the
// heavy ball of optim/outer_math.h; momentum never sees what other peers did.
#pragma once

#include "optim/outer_math.h"
#include "optim/outer_rule.h"

namespace starling::optim {

class PairGossip final : public OuterRule {
 public:
  explicit PairGossip(const HeavyBallScalars& scalars) : scalars_(scalars) {}

  std::string_view name() const override { return "pair_gossip"; }
  bool exchanges() const override { return true; }
  OuterReport step(std::span<float> slow, std::span<float> momentum,
                   std::span<float> local) const override;

 private:
  const HeavyBallScalars scalars_;
};

}  // namespace starling::optim
