#include "gossip/state_sketch.h"

#include <doctest/doctest.h>

namespace starling::gossip {
namespace {

StateSketch filled(float value) {
  StateSketch sketch;
  sketch.values.fill(value);
  return sketch;
}

}  // namespace

TEST_CASE("the median is the middle one, or between the middle two, and no liar moves it far") {
  const std::vector<StateSketch> odd{filled(1), filled(1e30F), filled(2)};
  CHECK(median_of(odd) == filled(2));
  const std::vector<StateSketch> even{filled(4), filled(1), filled(-1e30F), filled(2)};
  CHECK(median_of(even) == filled(1.5F));
  const std::vector<StateSketch> one{filled(3)};
  CHECK(median_of(one) == filled(3));
  const std::vector<StateSketch> largest{filled(3e38F), filled(3e38F)};
  CHECK(median_of(largest) == filled(3e38F));  // halves before it adds
}

TEST_CASE("distance and norm are those of the vectors") {
  CHECK(distance(filled(1), filled(3)) == doctest::Approx(2 * 8));
  CHECK(norm(filled(-3)) == doctest::Approx(3 * 8));
  CHECK(distance(filled(5), filled(5)) == 0);
}

}  // namespace starling::gossip
