#include "gossip/token_sketch.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/gossip/signed_tokens.h"

namespace starling::gossip {
namespace {

PeerKey process(std::uint64_t id) { return {PeerId{id}, 1}; }

}  // namespace

TEST_CASE("the sketch of many processes tells their tokens within its error") {
  // 1 / sqrt(126) = 8.9 % in the mean; 40 swarms: none beyond four times that, half within one.
  int within = 0;
  double bias = 0;
  constexpr int kSwarms = 40;
  for (std::uint64_t swarm = 0; swarm < kSwarms; ++swarm) {
    TokenSketch sketch(process(1));
    double total = 0;
    for (std::uint64_t id = 1; id <= 300; ++id) {
      const std::uint64_t tokens = 1000 * id;
      total += static_cast<double>(tokens);
      sketch.add(process(1000 * swarm + id), tokens);
    }
    const double error = sketch.estimate() / total - 1;
    CHECK(std::abs(error) < 0.36);
    within += std::abs(error) < 0.09 ? 1 : 0;
    bias += error / kSwarms;
  }
  CHECK(within > kSwarms / 2);
  CHECK(std::abs(bias) < 0.05);
}

TEST_CASE("merging sketches in any order gives the same and the estimate never shrinks") {
  TokenSketch left(process(1));
  TokenSketch right(process(2));
  double before = 0;
  for (std::uint64_t tokens = 1; tokens < 2000; tokens += 100) {
    left.set_own(tokens);
    right.set_own(3 * tokens);
    static_cast<void>(left.merge(right.minima()));
    CHECK(left.estimate() >= before);
    before = left.estimate();
  }
  CHECK(right.merge(left.minima()));
  CHECK_FALSE(right.merge(left.minima()));
  CHECK(right.estimate() == left.estimate());
  right.set_own(5);  // a count never falls
  CHECK(right.estimate() == left.estimate());
}

TEST_CASE("numbers that can be no minima change nothing") {
  TokenSketch sketch(process(1));
  sketch.set_own(1000);
  const double before = sketch.estimate();
  TokenSketch::Minima few;
  REQUIRE(few.try_push(1e-9F));
  CHECK_FALSE(sketch.merge(few));
  for (const float bad : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    TokenSketch::Minima minima;
    while (!minima.full()) REQUIRE(minima.try_push(bad));
    CHECK_FALSE(sketch.merge(minima));
  }
  CHECK(sketch.estimate() == before);
}

TEST_CASE("nobody has trained anything: the sketch says nothing") {
  CHECK(TokenSketch(process(1)).estimate() == 0);
}

TEST_CASE("a map that is full follows the sketch and one that is not is exact") {
  constexpr std::size_t kRoom = 50;
  TokenMap map = map_of(process(1), {}, kRoom);
  double total = 0;
  for (std::uint64_t id = 2; id <= 500; ++id) {
    static_cast<void>(map.merge(Instant{}, signed_entry(process(id), 1000)));
    map.sketch().add(process(id), 1000);
    total += 1000;
    if (id == kRoom) CHECK(estimate(map) == total);
  }
  CHECK(map.entries().size() == kRoom);
  CHECK(estimate(map) == doctest::Approx(total).epsilon(0.36));
  CHECK(estimate(map) > 2 * kRoom * 1000);
  TokenSketch::Minima lie;
  while (!lie.full()) REQUIRE(lie.try_push(1e-30F));
  REQUIRE(map.sketch().merge(lie));
  CHECK(estimate(map) <= TokenShares::kRatio * kRoom * 1000);
}

}  // namespace starling::gossip
