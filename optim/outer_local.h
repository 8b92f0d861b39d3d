// LocalTraining: the outer rule of a peer that trains alone with plain AdamW: the slow weights
// follow the fast ones, nothing is corrected and nothing is exchanged. The baseline of comparisons.
#pragma once

#include "optim/outer_rule.h"

namespace starling::optim {

class LocalTraining final : public OuterRule {
 public:
  std::string_view name() const override { return "local"; }
  bool exchanges() const override { return false; }
  OuterReport step(const OuterStage& stage, std::span<float> slow, std::span<float> momentum,
                   std::span<float> local) const override;
};

}  // namespace starling::optim
