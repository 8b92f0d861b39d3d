#include "optim/block_scales.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/assert.h"
#include "optim/lattice.h"
#include "optim/vector_math.h"

namespace starling::optim {

namespace {

constexpr double kRmsToReach = 5.0;  // a Gaussian difference beyond 5 sigma: 1 in 2 million
constexpr double kMaxToReach = 1.25;

// While training, differences grow between two exchanges and have heavy tails, and a skipped block
// loses all of a difference. The more bits, the further codes can afford to look: so far their
// error variance is 0.3, 1.7, 3 and 8.5 % of a Gaussian difference's, from eight bits to four.
constexpr double reach_slack(WireFormat format) {
  switch (format) {
    case WireFormat::kMod8: return 3.0;
    case WireFormat::kMod6: return 2.0;
    case WireFormat::kMod5: return 1.25;
    default: return 1.0;
  }
}
// Clipping by more than this is a partner far away, which must not set the scale.
constexpr double kUnclipMax = 16.0;
// A block that differed once and rests is never expected to differ by less than this share of its
// stripe: averages fall for as long as it rests, and every doubling back up costs an exchange.
constexpr double kRestingShare = 1.0 / 256;

// As far as one exchange may move a scale.
double moved_to(double scale, double value) {
  if (scale == 0.0) return value;
  return std::clamp(value, scale / kDifferenceGrowthMax, kDifferenceGrowthMax * scale);
}

std::size_t count_skipped(std::span<const BlockReport> blocks) {
  return static_cast<std::size_t>(
      std::count_if(blocks.begin(), blocks.end(),
                    [](const BlockReport& block) { return block.skipped_reach > 0.0f; }));
}

}  // namespace

BlockScales::BlockScales(std::size_t parameters)
    : parameters_(parameters), blocks_(block_count(parameters)) {
  STARLING_ASSERT(parameters >= 1);
  STARLING_ASSERT(parameters <= kStripeParameters);
}

std::optional<double> BlockScales::observe(std::span<const BlockReport> blocks, float clip_factor,
                                           WireFormat format) {
  STARLING_ASSERT(blocks.size() == blocks_.size());
  STARLING_ASSERT(clip_factor > 0.0f);
  const double unclip = std::min(1.0 / static_cast<double>(clip_factor), kUnclipMax);
  const bool lost_before = std::exchange(lost_, 2 * count_skipped(blocks) > blocks.size());
  double sum_of_squares = 0.0;
  std::size_t seen = 0;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const BlockReport& block = blocks[b];
    const std::size_t count = std::min(kBlockParameters, parameters_ - b * kBlockParameters);
    Scale& scale = blocks_[b];
    if (block.skipped_reach > 0.0f) {
      observe_skipped(scale, block.skipped_reach / reach_slack(format));
    } else {
      STARLING_ASSERT(std::isfinite(block.sum_of_squares));
      sum_of_squares += block.sum_of_squares;
      seen += count;
      const double rms = unclip * root_mean(block.sum_of_squares, count);
      const double max_abs = unclip * block.max_abs;
      scale = lost_before ? Scale{moved_to(scale.rms, rms), moved_to(scale.max_abs, max_abs)}
                          : Scale{averaged_difference(scale.rms, rms),
                                  averaged_difference(scale.max_abs, max_abs)};
    }
    const double most = kReachOfWeights * std::max<double>(block.own_largest, kWeightMin);
    scale = {std::min(scale.rms, most), std::min(scale.max_abs, most)};
  }
  if (seen == 0) return std::nullopt;
  compared_ = true;
  const double rms = unclip * root_mean(sum_of_squares, seen);
  rms_ = averaged_difference(rms_, rms);
  return rms;
}

// The difference was larger than the codes could say: look twice as far as they did next time. A
// scale that reaches further already is left alone, or it would double, without bound, with every
// partner whose own was too small.
void BlockScales::observe_skipped(Scale& scale, double reach) const {
  const Scale before = expected(scale);
  const double wanted = 2.0 * reach / kMaxToReach;
  scale.rms = before.rms;
  scale.max_abs = std::clamp(wanted, before.max_abs, kDifferenceGrowthMax * before.max_abs);
}

// A block that never differed is guessed to differ like the rest of the stripe, one that did by a
// share of it at least.
BlockScales::Scale BlockScales::expected(const Scale& scale) const {
  const double rms = rms_ > 0.0 ? rms_ : guess_;
  const double share = scale.max_abs > 0.0 ? kRestingShare : 1.0;
  return {std::max(scale.rms, share * rms),
          std::max(scale.max_abs, share * kRmsToReach / kMaxToReach * rms)};
}

void BlockScales::exponents(WireFormat format, std::span<const float> slow,
                            std::span<std::int8_t> out) const {
  STARLING_ASSERT(slow.size() == parameters_);
  STARLING_ASSERT(out.size() == blocks_.size());
  std::fill(out.begin(), out.end(), std::int8_t{0});
  if (!is_modular(format)) return;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const std::size_t first = b * kBlockParameters;
    const std::size_t count = std::min(kBlockParameters, parameters_ - first);
    const Scale scale = expected(blocks_[b]);
    const double reach =
        reach_slack(format) * std::max(kRmsToReach * scale.rms, kMaxToReach * scale.max_abs);
    const double largest = largest_magnitude(slow.subspan(first, count));
    const double step = std::max(reach / largest_code(format), largest / kCoordinateGoal);
    out[b] = static_cast<std::int8_t>(exponent_for(step));
  }
}

void BlockScales::save(std::span<float> out, double rms) const {
  STARLING_ASSERT(out.size() == state_floats());
  out[0] = static_cast<float>(rms);
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    out[1 + 2 * b] = static_cast<float>(blocks_[b].rms);
    out[2 + 2 * b] = static_cast<float>(blocks_[b].max_abs);
  }
}

Status BlockScales::restore(std::span<const float> state) {
  if (state.size() != state_floats()) {
    return Error(ErrorCode::kCorrupt, "block scales of another stripe");
  }
  for (const float value : state) {
    if (!std::isfinite(value) || value < 0.0f) {
      return Error(ErrorCode::kCorrupt, "a block scale is negative or not finite");
    }
  }
  rms_ = state[0];
  compared_ = rms_ > 0.0;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    blocks_[b] = {state[1 + 2 * b], state[2 + 2 * b]};
  }
  return ok_status();
}

}  // namespace starling::optim
