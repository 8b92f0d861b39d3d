#include "gossip/standing.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace starling::gossip {

TEST_CASE("a standing says what fits and can be printed") {
  const Standing standing = make_standing(2.5F, "cpu, 4 threads");
  CHECK(standing.loss == 2.5F);
  CHECK(device(standing) == "cpu, 4 threads");
  CHECK(device(make_standing(1, "a\x1b[2J\n\xc3\xa9")) == "a?[2J???");
  CHECK(device(make_standing(1, std::string(100, 'x'))) == std::string(kDeviceBytesMax, 'x'));
  CHECK(device(make_standing(1, "")).empty());
}

TEST_CASE("a loss that is no positive number is none") {
  for (const float loss : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN(),
                           std::numeric_limits<float>::infinity()}) {
    CHECK(make_standing(loss, "cpu").loss == 0);
  }
}

}  // namespace starling::gossip
