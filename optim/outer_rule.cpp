#include "optim/outer_rule.h"

#include <cmath>

#include "optim/outer_local.h"
#include "optim/outer_pair_gossip.h"

namespace starling::optim {

namespace {

double usable_weight(float weight) { return std::isfinite(weight) && weight > 0.0f ? weight : 0.0; }

}  // namespace

Result<std::unique_ptr<OuterRule>> make_outer_rule(const OuterConfig& config) {
  const auto refuse = [](const char* what) { return Error(ErrorCode::kInvalidConfig, what); };
  if (!(config.momentum >= 0.0f && config.momentum < 1.0f)) {
    return refuse("outer momentum must be in [0, 1)");
  }
  if (!(config.learning_rate > 0.0f) || !std::isfinite(config.learning_rate)) {
    return refuse("outer learning_rate must be positive");
  }
  if (!(config.mixing > 0.0f && config.mixing <= 0.5f)) {
    return refuse("outer mixing must be in (0, 0.5]");
  }
  std::unique_ptr<OuterRule> rule;
  switch (config.method) {
    case OuterMethod::kPairGossip:
      rule = std::make_unique<PairGossip>(
          HeavyBallScalars{.momentum = config.momentum, .learning_rate = config.learning_rate});
      break;
    case OuterMethod::kLocal: rule = std::make_unique<LocalTraining>(); break;
  }
  return rule;
}

PairFactors pair_factors(float mixing, float initiator_weight, float responder_weight) {
  const double initiator = usable_weight(initiator_weight);
  const double responder = usable_weight(responder_weight);
  const double sum = initiator + responder;
  if (sum == 0.0) return {};
  return {.initiator = static_cast<float>(2.0 * mixing * responder / sum),
          .responder = static_cast<float>(2.0 * mixing * initiator / sum)};
}

}  // namespace starling::optim
