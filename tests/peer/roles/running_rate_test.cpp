#include "peer/roles/running_rate.h"

#include <doctest/doctest.h>

namespace starling::peer {

TEST_CASE("a rate is there after the first step") {
  RunningRate rate;
  CHECK(rate.add(1024, 0.5) == doctest::Approx(2048));
}

TEST_CASE("steps that are short and long in turn have the rate of both") {
  RunningRate rate;
  double last = 0;
  for (int i = 0; i < 1000; ++i) {
    last = rate.add(1024, i % 2 == 0 ? 0.01 : 0.09);
    if (i > 300) CHECK(last == doctest::Approx(20480).epsilon(0.02));
  }
}

TEST_CASE("a machine that becomes slow is known as such within half a minute") {
  RunningRate rate;
  for (int i = 0; i < 1000; ++i) rate.add(1024, 0.1);
  double last = 0;
  for (int i = 0; i < 30; ++i) last = rate.add(1024, 1);
  CHECK(last < 1.6 * 1024);
  CHECK(last > 1024);
}

TEST_CASE("a step that takes minutes tells for itself") {
  RunningRate rate;
  for (int i = 0; i < 1000; ++i) rate.add(1024, 0.1);
  CHECK(rate.add(1024, 100) == doctest::Approx(10.24).epsilon(0.05));
}

}  // namespace starling::peer
