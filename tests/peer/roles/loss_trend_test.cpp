#include "peer/roles/loss_trend.h"

#include <doctest/doctest.h>

#include <limits>

namespace starling::peer {

namespace {

void steps(LossTrend& trend, int count, double loss) {
  for (int step = 0; step < count; ++step) trend.add(loss);
}

}  // namespace

TEST_CASE("a loss has risen once it stays high, and no longer once it is down again") {
  LossTrend trend;
  steps(trend, 1024, 5.5);
  steps(trend, 1024, 2.0);
  steps(trend, 1024, 2.4);  // by less than a quarter
  CHECK(!trend.rise());
  steps(trend, 192, 7.0);  // a spike that passes
  CHECK(!trend.rise());
  steps(trend, 256, 2.0);
  steps(trend, 255, 3.0);
  CHECK(!trend.rise());
  steps(trend, 1, 3.0);
  REQUIRE(trend.rise());
  CHECK(trend.rise()->lowest == doctest::Approx(2.0));
  CHECK(trend.rise()->now == doctest::Approx(3.0));
  steps(trend, 64, 2.0);
  CHECK(!trend.rise());
}

TEST_CASE("a small loss may double: it has not risen by less than half a nat") {
  LossTrend trend;
  steps(trend, 1024, 0.1);
  steps(trend, 1024, 0.4);
  CHECK(!trend.rise());
}

TEST_CASE("single steps that scatter, or are no numbers, are no rise") {
  LossTrend trend;
  for (int step = 0; step < 4096; ++step) {
    trend.add(step % 2 == 0 ? 0.5 : 9.0);
    trend.add(std::numeric_limits<double>::quiet_NaN());
  }
  CHECK(!trend.rise());
}

}  // namespace starling::peer
