#include "gossip/state_sketch.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/assert.h"

namespace starling::gossip {

StateSketch median_of(std::span<const StateSketch> sketches) {
  STARLING_ASSERT(!sketches.empty());
  StateSketch median;
  std::vector<float> values(sketches.size());
  for (std::size_t i = 0; i < kSketchSize; ++i) {
    for (std::size_t s = 0; s < sketches.size(); ++s) values[s] = sketches[s].values[i];
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    const bool odd = values.size() % 2 == 1;
    median.values[i] = odd ? values[middle] : values[middle - 1] / 2 + values[middle] / 2;
  }
  return median;
}

double distance(const StateSketch& left, const StateSketch& right) {
  double sum = 0;
  for (std::size_t i = 0; i < kSketchSize; ++i) {
    const double apart = double{left.values[i]} - double{right.values[i]};
    sum += apart * apart;
  }
  return std::sqrt(sum);
}

double norm(const StateSketch& sketch) { return distance(sketch, {}); }

}  // namespace starling::gossip
