// OuterRule: what a peer does with one fragment at the end of its inner phase: an outer step on its
// own slow weights. Purely local; the exchange with another peer is a separate, additive correction
// of slow and fast weights, weighed by pair_factors().
//
// One class per method (outer_pair_gossip.h, outer_local.h), chosen by configuration; methods that
// hand whole vectors around are an OuterExchange (outer_exchange.h). Rules hold no state; slow
// weights and momentum belong to the caller (the mixer), float32, one fragment or any part of it.
// Thread: any. No clock, no chance.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "optim/outer_config.h"
#include "optim/outer_stage.h"

namespace starling::optim {

// Of the elements of the call. displacement_rms is infinite where the local weights were none
// (are_weights); then nothing was changed.
struct OuterReport {
  double displacement_rms = 0.0;  // root mean square of local - slow, before
  double gain = 1.0;              // what a lasting displacement is multiplied with in the end
};
inline constexpr OuterReport kStepRefused{std::numeric_limits<double>::infinity(), 1.0};

// Finite, and below 2^126, so that differences of two such vectors are finite too. The slow weights
// and the momentum of a peer are made of these and need no second look.
bool are_weights(std::span<const float> values);

class OuterRule {
 public:
  OuterRule() = default;
  OuterRule(const OuterRule&) = delete;
  OuterRule& operator=(const OuterRule&) = delete;
  virtual ~OuterRule() = default;

  virtual std::string_view name() const = 0;
  virtual bool exchanges() const = 0;  // does it take part in gossip at all
  // `local` in: the fast weights of a snapshot, with every correction on its way to the trainer
  // already added. Out: the correction to add to the fast weights (new slow - local). One size.
  virtual OuterReport step(const OuterStage& stage, std::span<float> slow,
                           std::span<float> momentum, std::span<float> local) const = 0;
};

// kInvalidConfig where a value is out of its range, or the method is an OuterExchange.
Result<std::unique_ptr<OuterRule>> make_outer_rule(const OuterConfig& config);

// What each side multiplies the difference (responder - initiator) with: the initiator adds its
// share, the responder subtracts its own. weight_i * initiator == weight_j * responder, so the
// weighted sum over the swarm is conserved; a peer without weight leaves its partner alone.
struct PairFactors {
  float initiator = 0.0f;
  float responder = 0.0f;
};
// 2 g w_j / (w_i + w_j) and 2 g w_i / (w_i + w_j). Weights may come from another peer: what is
// negative or not finite counts as zero, and two peers without weight do not move.
PairFactors pair_factors(float mixing, float initiator_weight, float responder_weight);

}  // namespace starling::optim
