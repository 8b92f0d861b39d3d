#include "optim/outer_local.h"

#include <algorithm>

#include "base/assert.h"

namespace starling::optim {

OuterReport LocalTraining::step(std::span<float> slow, std::span<float> momentum,
                                std::span<float> local) const {
  STARLING_ASSERT(momentum.size() == slow.size());
  STARLING_ASSERT(local.size() == slow.size());
  OuterReport report;
  const VectorStats displacement = measure_difference(local, slow);
  report.displacement_rms = rms(displacement, slow.size());
  if (!displacement.finite) return report;
  std::copy(local.begin(), local.end(), slow.begin());
  std::fill(momentum.begin(), momentum.end(), 0.0f);
  std::fill(local.begin(), local.end(), 0.0f);
  return report;
}

}  // namespace starling::optim
