#include "optim/outer_pair_gossip.h"

#include <cstddef>

#include "base/assert.h"
#include "base/vector_clones.h"
#include "optim/vector_math.h"
#include "optim/vector_types.h"

namespace starling::optim {

namespace {

STARLING_VECTOR_CLONES
void heavy_ball_loop(const HeavyBallScalars& scalars, float* __restrict slow,
                     float* __restrict momentum, float* __restrict local, std::size_t count) {
  const HeavyBallScalars fixed = scalars;
  for (std::size_t i = 0; i < count; ++i) {
    const HeavyBallElement next = heavy_ball_element({slow[i], momentum[i], local[i]}, fixed);
    slow[i] = next.slow;
    momentum[i] = next.momentum;
    local[i] = next.local;
  }
}

}  // namespace

OuterReport PairGossip::step(const OuterStage& stage, std::span<float> slow,
                             std::span<float> momentum, std::span<float> local) const {
  STARLING_ASSERT(momentum.size() == slow.size());
  STARLING_ASSERT(local.size() == slow.size());
  if (!are_weights(local)) return kStepRefused;
  const HeavyBallScalars scalars = scalars_at(config_, stage);
  Measurement displacement;
  for_each_piece(slow.size(), [&](std::size_t first, std::size_t count) {
    prefetch_next(std::span<const float>(slow).subspan(first, count));
    prefetch_next(std::span<const float>(momentum).subspan(first, count));
    displacement.add_sum(local.subspan(first, count), -1.0f, slow.subspan(first, count));
    heavy_ball_loop(scalars, slow.data() + first, momentum.data() + first, local.data() + first,
                    count);
  });
  return {rms(displacement.stats(), slow.size()), outer_gain(scalars)};
}

}  // namespace starling::optim
