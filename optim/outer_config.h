// OuterConfig: which outer method a run uses, and its settings.
//
// Two interfaces, and each method has exactly one: OuterRule (outer_rule.h) for pair_gossip and
// local, which a peer runs; OuterExchange (outer_exchange.h) for the methods of others, which are
// compared in simulated swarms. Plain values, any thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/result.h"
#include "optim/schedule.h"

namespace starling::optim {

enum class OuterMethod : std::uint8_t {
  kPairGossip,
  kLocal,
  kAllReduce,
  kDiloco,
  kStreamingDiloco,
  kNoloco,
  kAsyncLocalSgd,
  kAdPsgd,
  kSwarmSgd,
  kPushSum,
  kEpidemic,
};

// A method ignores what is not its own.
struct OuterConfig {
  OuterMethod method = OuterMethod::kPairGossip;
  float momentum = 0.0f;       // alpha, in [0, 1); pair_gossip: before it grows (outer_stage.h)
  float learning_rate = 1.0f;  // beta, positive
  float gain = 2.0f;           // pair_gossip: of the outer step in the end (outer_stage.h)
  std::uint32_t gain_warmup_steps = 500;  // pair_gossip: until it is reached
  float mixing = 0.5f;                    // pair_gossip: g, in (0, 0.5], half the share that moves
  float rate_power = 2.0f;                // pair_gossip: kappa, weight of a peer by its speed
  float group_pull = 0.7f;                // noloco: gamma, how far towards the group's mean
  std::uint32_t group = 2;                // noloco: n, a peer itself included
  std::uint32_t overlap_steps = 0;  // streaming_diloco, push_sum: tau, inner steps of patience
  float blend = 0.5f;           // streaming_diloco: what is kept of the local weights, in [0, 1)
  std::uint32_t buffer = 0;     // async_local_sgd: N, arrivals a momentum step. 0: the peers
  float momentum_share = 0.0f;  // async_local_sgd: c, in [0, 1 / N]
  std::uint32_t targets = 0;    // epidemic: s, receivers a round. 0: log2 of the peers
};

inline constexpr float kGainMax = 10.0f;

// What the authors of a method took; where papers say nothing, the header of the method tells.
struct OuterDefaults {
  OuterConfig rule;
  FragmentSchedule rounds;
};
OuterDefaults outer_defaults(OuterMethod method);

// Runs on a peer, by OuterRule; the others have an OuterExchange.
constexpr bool is_outer_rule(OuterMethod method) {
  return method == OuterMethod::kPairGossip || method == OuterMethod::kLocal;
}

// The averages of a swarm whose inner phases reach their optimum (the fastest directions always do)
// swing up without bound from here on; with smaller learning rates they come to rest.
//
// Heavy ball, m = a m + b d, x += m with d = -x: roots of z^2 - (1 + a - b) z + a. A momentum that
// grows (outer_stage.h) moves away from it.
constexpr double heavy_ball_bound(double momentum) { return 2.0 * (1.0 + momentum); }
// Nesterov, m = a m + d, x += b (d + a m): roots of z^2 - (1 + a - b (1 + a)) z + a (1 - b).
constexpr double nesterov_bound(double momentum) {
  return 2.0 * (1.0 + momentum) / (1.0 + 2.0 * momentum);
}
// Of async_local_sgd: M peers that end one after the other move the server M / N times its learning
// rate in a round, momentum aside: x_t+1 = x_t - (b / N) x_t-M+1, which diverges from b / N = 2 sin
// (pi / (4 M - 2)) on (Levin and May, "A note on difference-delay equations", 1976). With momentum
// it does well before: with 0.9 and a buffer of all peers from b = 0.76, 0.57, 0.48 and 0.44 on for
// 4, 8, 16 and 32 of them, so with the 0.7 of its authors from eight on. That is how it was
// published, and is not refused.
inline double server_bound(double momentum, std::uint32_t buffer, std::uint32_t peers) {
  const double m = std::max(peers, 1U);
  const double late = 2.0 * m * std::sin(std::numbers::pi / (4.0 * m - 2.0));
  return buffer > peers ? late : std::min(late, nesterov_bound(momentum));
}
// Of noloco's group_pull, for a large swarm: above, the peers' differences grow. The second moments
// of deviation and momentum under random groups of n have an eigenvalue of one there; for pairs it
// is 2 (1 - a^2). For a of 0.8 and more, the interval that NoLoCo's paper prints (eq. 74) lies
// above it.
constexpr double group_pull_bound(double momentum, std::uint32_t group) {
  const double n = group;
  return 2.0 * (1.0 - momentum * momentum) / (1.0 - momentum * (n - 2.0) / n);
}

// kInvalidConfig, with the bound, where a value that the method uses is out of its range. `peers`:
// how many there will be; 0: not known.
Status validate(const OuterConfig& config, std::uint32_t peers = 0);

}  // namespace starling::optim
