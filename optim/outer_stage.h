// OuterStage: what the outer step of pair gossip follows besides its settings: how long this peer
// has trained, and how many others average with it.
//
//   base     = beta / (1 - alpha)
//   gain     = base + max(gain in the end - base, 0) (1 - 1 / n) min(1, t / T)
//   momentum = 1 - beta / gain
//
// The gain of an outer step, beta / (1 - momentum), is how many times as far as a displacement says
// it moves the weights in the end where it lasts. How far they may be moved depends on the noise in
// the step. Averaged over n equal peers it has 1 / n of the variance, so the step can be longer
// (the linear scaling rule of Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1
// hour", 2017, section 2.1); a peer without others has no reason for it. And, as with a large
// learning rate (section 2.2 there), it must not come at once: early in training longer steps cost
// more than some hundred steps win back. The form is ours; measured in scripts/evidence/settings
// and longer_runs.
//
// With alpha = 0 and beta = 1, the defaults, a peer alone trains as if there were no outer step,
// and momentum is there only as far as there are others to average its noise with.
#pragma once

#include <algorithm>
#include <cstdint>

#include "optim/outer_config.h"
#include "optim/outer_math.h"

namespace starling::optim {

struct OuterStage {
  std::uint64_t steps = 0;  // t: inner steps of this peer so far
  double equal_peers = 1;   // n: as many of one speed are worth as much (gossip/rate_weight.h)
};

inline double outer_gain(const HeavyBallScalars& scalars) {
  return double{scalars.learning_rate} / (1 - double{scalars.momentum});
}

inline HeavyBallScalars scalars_at(const OuterConfig& config, const OuterStage& stage) {
  const HeavyBallScalars scalars{.momentum = config.momentum,
                                 .learning_rate = config.learning_rate};
  const double base = outer_gain(scalars);
  const double others = 1 - 1 / std::max(stage.equal_peers, 1.0);
  const bool warm = stage.steps >= config.gain_warmup_steps;
  const auto steps = static_cast<double>(stage.steps);
  const double share = others * (warm ? 1 : steps / config.gain_warmup_steps);
  const double growth = std::max(config.gain - base, 0.0) * share;
  return {.momentum = static_cast<float>(1 - double{scalars.learning_rate} / (base + growth)),
          .learning_rate = scalars.learning_rate};
}

}  // namespace starling::optim
