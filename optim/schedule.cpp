#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/assert.h"

namespace starling::optim {

namespace {

// How far `tokens` is on the way from `first` to `last`: 0 before, 1 after.
double progress(double tokens, double first, double last) {
  if (tokens >= last) return 1.0;
  return tokens <= first ? 0.0 : (tokens - first) / (last - first);
}

// The share of the way from peak down to floor that is left at `tokens`.
double height(const LrConfig& config, double tokens) {
  switch (config.shape) {
    case LrShape::kConstant: return 1.0;
    case LrShape::kCosine: {
      const double done = progress(tokens, config.warmup_tokens, config.total_tokens);
      return 0.5 * (1.0 + std::cos(std::numbers::pi * done));
    }
    case LrShape::kWarmupStableDecay:
      return 1.0 - progress(tokens, config.decay_start_tokens, config.total_tokens);
  }
  return 1.0;
}

}  // namespace

float learning_rate(const LrConfig& config, const SwarmTokens& tokens,
                    std::uint64_t local_steps_since_join) {
  const double floor = config.peak * config.floor_ratio;
  double rate = floor + (config.peak - floor) * height(config, tokens.all);
  if (tokens.warmed < config.warmup_tokens) {
    rate *= std::max(0.0, tokens.warmed) / config.warmup_tokens;
  }
  if (local_steps_since_join < config.local_warmup_steps) {
    rate *= static_cast<double>(local_steps_since_join + 1) /
            static_cast<double>(config.local_warmup_steps);
  }
  return static_cast<float>(rate);
}

std::optional<FragmentId> fragment_due(const FragmentSchedule& schedule, StepIndex steps_done) {
  const std::uint64_t steps = schedule.steps_per_round;
  const std::uint64_t fragments = schedule.fragments;
  STARLING_ASSERT(fragments >= 1);
  STARLING_ASSERT(fragments <= steps);
  if (steps_done.value == 0) return std::nullopt;
  const std::uint64_t offset = steps_done.value % steps;
  // The only candidate: the first fragment whose offset is not before this one.
  const std::uint64_t candidate = (offset * fragments + steps - 1) / steps;
  if (candidate >= fragments || candidate * steps / fragments != offset) return std::nullopt;
  return FragmentId{static_cast<std::uint16_t>(candidate)};
}

std::uint32_t dynamic_local_steps(const FragmentSchedule& schedule, double share) {
  constexpr std::uint32_t kLeast = 4, kMost = 4;
  const std::uint32_t steps = schedule.steps_per_round;
  const std::uint32_t least = std::min(steps, std::max<std::uint32_t>(kLeast, schedule.fragments));
  const double wanted = std::round(share * steps);
  if (!(wanted > least)) return least;
  return static_cast<std::uint32_t>(std::min<double>(wanted, double{kMost} * steps));
}

FragmentClock::FragmentClock(const FragmentSchedule& schedule, std::uint64_t steps_done)
    : fragments_(schedule.fragments), steps_per_round_(schedule.steps_per_round) {
  STARLING_ASSERT(fragments_ >= 1);
  STARLING_ASSERT(fragments_ <= steps_per_round_);
  // So many were due: the k-th at k * H / P, rounded down.
  const auto in_round = static_cast<std::int64_t>(steps_done % schedule.steps_per_round);
  const std::int64_t due = (in_round * fragments_ + fragments_ - 1) / steps_per_round_;
  next_ = (due + 1) % fragments_;
  steps_ = in_round * fragments_ - due * steps_per_round_;
}

std::optional<FragmentId> FragmentClock::step(std::uint32_t steps_per_round) {
  STARLING_ASSERT(steps_per_round >= fragments_);
  if (steps_per_round != steps_per_round_) {
    steps_ = steps_ * steps_per_round / steps_per_round_;
    steps_per_round_ = steps_per_round;
  }
  steps_ += fragments_;
  if (steps_ + fragments_ <= steps_per_round_) return std::nullopt;
  steps_ -= steps_per_round_;
  const FragmentId due{static_cast<std::uint16_t>(next_)};
  next_ = (next_ + 1) % fragments_;
  return due;
}

}  // namespace starling::optim
