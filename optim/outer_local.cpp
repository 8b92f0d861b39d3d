#include "optim/outer_local.h"

#include <algorithm>

#include "base/assert.h"
#include "optim/vector_math.h"

namespace starling::optim {

OuterReport LocalTraining::step(const OuterStage&, std::span<float> slow, std::span<float> momentum,
                                std::span<float> local) const {
  STARLING_ASSERT(momentum.size() == slow.size());
  STARLING_ASSERT(local.size() == slow.size());
  if (!are_weights(local)) return kStepRefused;
  Measurement displacement;
  for_each_piece(slow.size(), [&](std::size_t first, std::size_t count) {
    const std::span<float> weights = local.subspan(first, count);
    displacement.add_sum(weights, -1.0f, slow.subspan(first, count));
    std::copy(weights.begin(), weights.end(), slow.begin() + static_cast<std::ptrdiff_t>(first));
    std::fill(weights.begin(), weights.end(), 0.0f);
  });
  std::fill(momentum.begin(), momentum.end(), 0.0f);
  return {rms(displacement.stats(), slow.size()), 1.0};
}

}  // namespace starling::optim
