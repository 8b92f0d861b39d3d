#include "optim/outer_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace starling::optim {

namespace {

Status refuse(std::string what) { return Error(ErrorCode::kInvalidConfig, std::move(what)); }

enum class OuterStep : std::uint8_t { kNone, kHeavyBall, kNesterov };

OuterStep outer_step(OuterMethod method) {
  switch (method) {
    case OuterMethod::kPairGossip:
    case OuterMethod::kNoloco: return OuterStep::kHeavyBall;
    case OuterMethod::kDiloco:
    case OuterMethod::kStreamingDiloco:
    case OuterMethod::kAsyncLocalSgd: return OuterStep::kNesterov;
    case OuterMethod::kLocal:
    case OuterMethod::kAllReduce:
    case OuterMethod::kAdPsgd:
    case OuterMethod::kSwarmSgd:
    case OuterMethod::kPushSum:
    case OuterMethod::kEpidemic: break;
  }
  return OuterStep::kNone;
}

Status validate_outer_step(const OuterConfig& config) {
  if (!(config.momentum >= 0.0f && config.momentum < 1.0f)) {
    return refuse("outer momentum must be in [0, 1)");
  }
  if (!(config.learning_rate > 0.0f) || !std::isfinite(config.learning_rate)) {
    return refuse("outer learning_rate must be positive");
  }
  const OuterStep step = outer_step(config.method);
  if (step == OuterStep::kNone) return ok_status();
  const bool ball = step == OuterStep::kHeavyBall;
  const double bound = ball ? heavy_ball_bound(config.momentum) : nesterov_bound(config.momentum);
  if (config.learning_rate < bound) return ok_status();
  return refuse(
      fmt::format("outer learning_rate = {:.4g} diverges: with momentum = {:.4g} it must be below "
                  "{:.4g} = {}",
                  config.learning_rate, config.momentum, bound,
                  ball ? "2 (1 + momentum)" : "2 (1 + momentum) / (1 + 2 momentum)"));
}

Status validate_pair_gossip(const OuterConfig& config) {
  if (!(config.mixing > 0.0f && config.mixing <= 0.5f)) {
    return refuse("outer mixing must be in (0, 0.5]");
  }
  if (!(config.gain >= 0.0f && config.gain <= kGainMax)) {
    return refuse(fmt::format("outer gain must be in [0, {:.4g}]", kGainMax));
  }
  return ok_status();
}

Status validate_noloco(const OuterConfig& config) {
  if (config.group < 2) return refuse("outer group must be 2 or more: a peer and others");
  const double bound = group_pull_bound(config.momentum, config.group);
  if (config.group_pull > 0.0f && config.group_pull < bound) return ok_status();
  return refuse(
      fmt::format("outer group_pull = {:.4g} diverges: with momentum = {:.4g} and groups of {} it "
                  "must be above "
                  "0 and below {:.4g}{}",
                  config.group_pull, config.momentum, config.group, bound,
                  config.group == 2 ? " = 2 (1 - momentum^2)" : ""));
}

Status validate_server(const OuterConfig& config, std::uint32_t peers) {
  const std::uint32_t buffer = config.buffer == 0 ? std::max(peers, 1U) : config.buffer;
  const double most = 1.0 / buffer;
  // As a float, or the bound itself would be refused.
  if (!(config.momentum_share >= 0.0f && config.momentum_share <= static_cast<float>(most))) {
    return refuse(
        fmt::format("outer momentum_share must be in [0, 1 / buffer], here up to {:.4g}", most));
  }
  const double bound = server_bound(config.momentum, buffer, peers);
  const double moved = config.learning_rate * static_cast<double>(peers) / buffer;
  if (moved < bound) return ok_status();
  return refuse(
      fmt::format("outer buffer = {} diverges: {} peers move the server by learning_rate * peers / "
                  "buffer = {:.4g} in a round, which must be below {:.4g}; 0 makes buffer as large "
                  "as there are peers",
                  buffer, peers, moved, bound));
}

}  // namespace

OuterDefaults outer_defaults(OuterMethod method) {
  OuterDefaults defaults{.rule = {.method = method},
                         .rounds = {.steps_per_round = 1, .fragments = 1}};
  OuterConfig& rule = defaults.rule;
  FragmentSchedule& rounds = defaults.rounds;
  switch (method) {
    case OuterMethod::kPairGossip:
    case OuterMethod::kLocal: rounds = {.steps_per_round = 50, .fragments = 5}; break;
    case OuterMethod::kDiloco:
      rule.momentum = 0.9f;
      rule.learning_rate = 0.7f;
      rounds.steps_per_round = 500;
      break;
    case OuterMethod::kStreamingDiloco:
      rule.momentum = 0.9f;
      rule.learning_rate = 0.4f;
      rule.overlap_steps = 1;
      rounds = {.steps_per_round = 100, .fragments = 5};
      break;
    case OuterMethod::kNoloco:
      rule.momentum = 0.5f;
      rule.learning_rate = 0.7f;
      rounds.steps_per_round = 50;
      break;
    case OuterMethod::kAsyncLocalSgd:
      rule.momentum = 0.9f;
      rule.learning_rate = 0.7f;
      rounds.steps_per_round = 50;
      break;
    case OuterMethod::kSwarmSgd: rounds.steps_per_round = 3; break;
    case OuterMethod::kAllReduce:
    case OuterMethod::kAdPsgd:
    case OuterMethod::kPushSum:
    case OuterMethod::kEpidemic: break;
  }
  return defaults;
}

Status validate(const OuterConfig& config, std::uint32_t peers) {
  auto step = validate_outer_step(config);
  if (!step.ok()) return step;
  switch (config.method) {
    case OuterMethod::kPairGossip: return validate_pair_gossip(config);
    case OuterMethod::kNoloco: return validate_noloco(config);
    case OuterMethod::kAsyncLocalSgd: return validate_server(config, peers);
    case OuterMethod::kStreamingDiloco:
      if (config.blend >= 0.0f && config.blend < 1.0f) break;
      return refuse("outer blend must be in [0, 1): at 1 nothing of the others is taken");
    default: break;
  }
  return ok_status();
}

}  // namespace starling::optim
