#include "peer/models/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/assert.h"

namespace starling::peer {

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, Rng& rng) {
  STARLING_ASSERT(!logits.empty());
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(options.top_k, 0));
  std::size_t kept = wanted == 0 ? order.size() : std::min(wanted, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [logits](std::int32_t left, std::int32_t right) {
                      const float a = logits[static_cast<std::size_t>(left)];
                      const float b = logits[static_cast<std::size_t>(right)];
                      return a != b ? a > b : left < right;
                    });
  if (!(options.temperature > 0)) return order.front();

  const double largest = logits[static_cast<std::size_t>(order.front())];
  std::vector<double> weights(kept);
  double sum = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    const double logit = logits[static_cast<std::size_t>(order[i])];
    weights[i] = std::exp((logit - largest) / options.temperature);
    sum += weights[i];
  }
  if (options.top_p < 1) {
    const double enough = options.top_p * sum;
    sum = weights.front();
    std::size_t nucleus = 1;
    while (sum < enough && nucleus < kept) sum += weights[nucleus++];
    kept = nucleus;
  }
  double left = rng.unit() * sum;
  for (std::size_t i = 0; i < kept; ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order.front();  // rounding used up the sum: any kept token is as good
}

}  // namespace starling::peer
