#include "peer/simulate/line_time.h"

#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "base/rng.h"

namespace starling::peer {
namespace {

using std::chrono::seconds;

constexpr Instant at(int second) { return Instant{} + seconds(second); }

}  // namespace

TEST_CASE("one after the other, and at once where nobody is") {
  LineTime line;
  const auto take = [&line](int from, int length) {
    const LineTime::Taken taken = line.take(at(0), at(from), seconds(length));
    return std::array{taken.begin, taken.end};
  };
  CHECK(take(0, 3) == std::array{at(0), at(3)});
  CHECK(take(1, 2) == std::array{at(3), at(5)});
  CHECK(take(10, 2) == std::array{at(10), at(12)});
  CHECK(take(20, 1) == std::array{at(20), at(21)});
  CHECK(take(6, 4) == std::array{at(6), at(10)});   // just fits
  CHECK(take(4, 1) == std::array{at(5), at(6)});    // so does this
  CHECK(take(0, 9) == std::array{at(12), at(22)});  // in two pieces
  CHECK(take(0, 0) == std::array{at(22), at(22)});
}

TEST_CASE("no second is given out twice, and none is idle while somebody waits") {
  Rng dice(7);
  for (int round = 0; round < 200; ++round) {
    LineTime line;
    std::vector<int> taken(2000, 0);
    int now = 0;
    for (int i = 0; i < 60; ++i) {
      now += static_cast<int>(dice.below(4));
      const int from = now + static_cast<int>(dice.below(40));
      const int length = static_cast<int>(1 + dice.below(9));
      const LineTime::Taken got = line.take(at(now), at(from), seconds(length));
      // Second by second: the first free ones from `from` on.
      int second = from, left = length, first = -1;
      for (; left > 0; ++second) {
        if (taken[static_cast<std::size_t>(second)] != 0) continue;
        taken[static_cast<std::size_t>(second)] = 1;
        if (first < 0) first = second;
        --left;
      }
      REQUIRE(got.begin == at(first));
      REQUIRE(got.end == at(second));
    }
  }
}

}  // namespace starling::peer
