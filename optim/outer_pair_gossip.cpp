#include "optim/outer_pair_gossip.h"

#include <cstddef>

#include "base/assert.h"
#include "optim/vector_clones.h"

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

OuterReport PairGossip::step(std::span<float> slow, std::span<float> momentum,
                             std::span<float> local) const {
  STARLING_ASSERT(momentum.size() == slow.size());
  STARLING_ASSERT(local.size() == slow.size());
  OuterReport report;
  const VectorStats displacement = measure_difference(local, slow);
  report.displacement_rms = rms(displacement, slow.size());
  if (!displacement.finite) return report;
  Measurement correction;
  for_each_piece(slow.size(), [&](std::size_t first, std::size_t count) {
    heavy_ball_loop(scalars_, slow.data() + first, momentum.data() + first, local.data() + first,
                    count);
    correction.add(local.subspan(first, count));
  });
  report.correction_rms = rms(correction.stats(), local.size());
  return report;
}

}  // namespace starling::optim
