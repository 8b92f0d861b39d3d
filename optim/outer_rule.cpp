#include "optim/outer_rule.h"

#include <cmath>
#include <utility>

#include "optim/outer_local.h"
#include "optim/outer_pair_gossip.h"
#include "optim/vector_math.h"

namespace starling::optim {

namespace {

double usable_weight(float weight) { return std::isfinite(weight) && weight > 0.0f ? weight : 0.0; }

}  // namespace

bool are_weights(std::span<const float> values) {
  constexpr float kBeyond = 0x1p126f;
  return largest_magnitude(values) < kBeyond;  // false for NaN
}

Result<std::unique_ptr<OuterRule>> make_outer_rule(const OuterConfig& config) {
  auto valid = validate(config);
  if (!valid.ok()) return std::move(valid).error();
  std::unique_ptr<OuterRule> rule;
  switch (config.method) {
    case OuterMethod::kPairGossip: rule = std::make_unique<PairGossip>(config); break;
    case OuterMethod::kLocal: rule = std::make_unique<LocalTraining>(); break;
    default:
      return Error(ErrorCode::kInvalidConfig,
                   "this outer method is not a rule of one peer: peers hand whole vectors around");
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
