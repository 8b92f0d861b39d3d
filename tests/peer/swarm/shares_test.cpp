#include "peer/swarm/shares.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "base/rng.h"

namespace starling::peer {

namespace {

double sum_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

TEST_CASE("equal machines have equal shares, by every rule") {
  const std::vector<double> speeds(5, 3.0);
  for (const double share : proportional_shares(speeds)) CHECK(share == doctest::Approx(0.2));
  const std::vector<Worker> workers(5, Worker{.speed = 3, .fixed_seconds = 2});
  const auto balanced = balanced_shares(workers, 30);
  REQUIRE(balanced.has_value());
  for (const double share : balanced->shares) CHECK(share == doctest::Approx(0.2));
  CHECK(balanced->seconds == doctest::Approx(4));
  CHECK(sharding_round(balanced->shares, 10) == std::vector<std::uint64_t>(5, 2));
  const std::vector<PipelineKind> kinds(3, PipelineKind{.seconds = 2, .stages = 2});
  CHECK(pipeline_batches(kinds, 12) == std::vector<std::uint32_t>{4, 4, 4});
}

TEST_CASE("a rounding of very many pieces gives out all of them and no more") {
  for (const std::uint64_t pieces : {std::uint64_t{1'000'000'001}, std::uint64_t{1} << 40}) {
    CHECK(sharding_round(std::vector<double>{1}, pieces) == std::vector<std::uint64_t>{pieces});
    const auto both = sharding_round(std::vector<double>{0.5, 0.5}, pieces);
    CHECK(both[0] + both[1] == pieces);
  }
}

TEST_CASE("twice the speed has twice the share where nobody waits for a line") {
  const auto shares = proportional_shares(std::vector<double>{1, 2, 1});
  CHECK(shares[1] == doctest::Approx(2 * shares[0]));
  const auto balanced =
      balanced_shares(std::vector<Worker>{{.speed = 1}, {.speed = 2}, {.speed = 1}}, 8);
  REQUIRE(balanced.has_value());
  CHECK(balanced->shares[1] == doctest::Approx(2 * balanced->shares[0]));
  CHECK(balanced->seconds == doctest::Approx(2));
}

TEST_CASE("who waits for a line does less, and who would end too late does nothing") {
  const std::vector<Worker> workers{
      {.speed = 1}, {.speed = 1, .fixed_seconds = 2}, {.speed = 1, .fixed_seconds = 100}};
  const auto balanced = balanced_shares(workers, 10);
  REQUIRE(balanced.has_value());
  CHECK(balanced->seconds == doctest::Approx(6));
  CHECK(balanced->shares[0] == doctest::Approx(0.6));
  CHECK(balanced->shares[1] == doctest::Approx(0.4));
  CHECK(balanced->shares[2] == 0);
}

TEST_CASE("who is full leaves the rest to the others, and too little room is told") {
  const auto balanced = balanced_shares(
      std::vector<Worker>{{.speed = 10, .most = 0.25}, {.speed = 1}, {.speed = 2}}, 4);
  REQUIRE(balanced.has_value());
  CHECK(balanced->shares[0] == doctest::Approx(0.25));
  CHECK(balanced->shares[1] == doctest::Approx(0.25));
  CHECK(balanced->shares[2] == doctest::Approx(0.5));
  CHECK(!balanced_shares(std::vector<Worker>{{.speed = 1, .most = 0.5}}, 4));
  CHECK(balanced_shares(std::vector<Worker>(10, Worker{.speed = 1, .most = 0.1}), 4));
}

TEST_CASE("of all shares that sum to one, none is done sooner than the balanced ones") {
  Rng rng(7);
  for (int turn = 0; turn < 50; ++turn) {
    std::vector<Worker> workers;
    for (int i = 0; i < 6; ++i) {
      workers.push_back({0.1 + rng.unit(), 3 * rng.unit(), 0.3 + rng.unit()});
    }
    const double work = 1 + 10 * rng.unit();
    const auto best = balanced_shares(workers, work);
    REQUIRE(best.has_value());
    CHECK(sum_of(best->shares) == doctest::Approx(1));
    for (int other = 0; other < 20; ++other) {
      std::vector<double> shares = best->shares;
      const auto from = static_cast<std::size_t>(rng.below(6));
      const auto to = static_cast<std::size_t>(rng.below(6));
      const double moved = std::min(shares[from], workers[to].most - shares[to]) * rng.unit();
      shares[from] -= moved;
      shares[to] += moved;
      double slowest = 0;
      for (std::size_t i = 0; i < 6; ++i) {
        if (shares[i] <= 1e-12) continue;
        slowest = std::max(slowest, workers[i].fixed_seconds + work * shares[i] / workers[i].speed);
      }
      CHECK(slowest >= best->seconds * (1 - 1e-9));
    }
  }
}

TEST_CASE("rounded shares sum to all pieces and are less than one off") {
  Rng rng(5);
  for (int turn = 0; turn < 200; ++turn) {
    std::vector<double> speeds(1 + static_cast<std::size_t>(rng.below(40)));
    for (double& speed : speeds) speed = std::exp(4 * rng.normal());
    const auto shares = proportional_shares(speeds);
    const std::uint64_t pieces = rng.below(1000);
    const auto rounded = sharding_round(shares, pieces);
    CHECK(std::accumulate(rounded.begin(), rounded.end(), std::uint64_t{0}) == pieces);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      CHECK(std::abs(static_cast<double>(rounded[i]) - shares[i] * static_cast<double>(pieces)) <=
            1);
    }
  }
}

TEST_CASE("a pipeline of half the speed has half the micro-batches") {
  const std::vector<PipelineKind> two{{.seconds = 1}, {.seconds = 2}};
  CHECK(pipeline_batches(two, 12) == std::vector<std::uint32_t>{8, 4});
  const std::vector<PipelineKind> deep{{.seconds = 4, .stages = 4}, {.seconds = 2, .count = 2}};
  CHECK(pipeline_batches(deep, 12) == std::vector<std::uint32_t>{6, 3});
  // Each has one at least, and three of a kind cannot have four together.
  CHECK(pipeline_batches(std::vector<PipelineKind>{{.seconds = 1}, {.seconds = 1000}}, 5) ==
        std::vector<std::uint32_t>{4, 1});
  CHECK(!pipeline_batches(std::vector<PipelineKind>{{.seconds = 1, .count = 3}}, 4));
  CHECK(!pipeline_batches(two, 1));
  // Only far from what would suit each do so many slow ones leave a number that is left.
  const std::vector<PipelineKind> many{{.seconds = 0.01}, {.seconds = 1, .count = 200}};
  const auto dealt = pipeline_batches(many, 450);
  REQUIRE(dealt);
  CHECK((*dealt)[0] + 200 * (*dealt)[1] == 450);
}

TEST_CASE("exchanges of random pairs contract as a simulation of them does") {
  CHECK(pair_contraction(0.5, 64, 32) == doctest::Approx(0.6 * 1.0).epsilon(0.02));
  CHECK(pair_contraction(0.5, 2, 1) == 0);
  CHECK(pair_contraction(0.5, 1, 100) == 1);
  Rng rng(11);
  for (const double mixing : {0.5, 0.25}) {
    double left = 0;
    constexpr int kTurns = 4000, kPeers = 8, kExchanges = 12;
    for (int turn = 0; turn < kTurns; ++turn) {
      std::vector<double> values(kPeers, 0.0);
      values[0] = 1;  // whatever the start: the law is of its variance alone
      for (int exchange = 0; exchange < kExchanges; ++exchange) {
        const auto one = static_cast<std::size_t>(rng.below(kPeers));
        const auto other = (one + 1 + static_cast<std::size_t>(rng.below(kPeers - 1))) % kPeers;
        const double moved = mixing * (values[other] - values[one]);
        values[one] += moved;
        values[other] -= moved;
      }
      for (const double value : values) left += (value - 1.0 / kPeers) * (value - 1.0 / kPeers);
    }
    const double before = 1 - 1.0 / kPeers;
    CHECK(left / kTurns / before ==
          doctest::Approx(pair_contraction(mixing, kPeers, kExchanges)).epsilon(0.1));
  }
}

}  // namespace starling::peer
