#include "gossip/rate_weight.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::seconds;
using Letter = CoreBench::Letter;

}  // namespace

TEST_CASE("a peer counts by its speed to the power, the fastest fully") {
  CHECK(rate_weight(1, 2) == 1.0F);
  CHECK(rate_weight(0.5, 2) == 0.25F);
  CHECK(rate_weight(0.5, 1) == 0.5F);
  CHECK(rate_weight(0.5, 0) == 1.0F);
  CHECK(rate_weight(2, 2) == 1.0F);
}

TEST_CASE("however slow a peer is its weight is not zero, which newcomers have") {
  CHECK(rate_weight(0, 2) > 0);
  CHECK(rate_weight(1e-9, 8) == rate_weight(0, 2));
}

TEST_CASE("equal peers are worth their number, slow ones hardly more than none") {
  CHECK(equal_peers(std::vector<double>(8, 1.0), 2) == doctest::Approx(8));
  CHECK(equal_peers(std::vector<double>(8, 1.0), 0) == doctest::Approx(8));
  CHECK(equal_peers(std::vector<double>{}, 2) == 1);
  std::vector<double> slow(16, 0.1);
  slow[0] = 1;
  CHECK(equal_peers(slow, 2) == doctest::Approx(1.0301).epsilon(1e-4));  // 1.015^2 / 1.00015
  // Where all count alike, slow ones are worth what they train: 2.5 times as much as one.
  CHECK(equal_peers(slow, 0) == doctest::Approx(2.5));  // 2.5^2 / 2.5
}

TEST_CASE("weights by rate keep the mean of unequal peers near the pace of the fastest") {
  const std::vector<double> rates = {1, 0.5, 0.25, 0.1};
  CHECK(mean_pace(rates, 0) == doctest::Approx(0.4625));
  CHECK(mean_pace(rates, 1) == doctest::Approx(0.7149).epsilon(1e-4));
  CHECK(mean_pace(rates, 2) == doctest::Approx(0.8632).epsilon(1e-4));
  CHECK(mean_pace(rates, 4) == doctest::Approx(0.9679).epsilon(1e-4));
  CHECK(mean_pace(std::vector<double>(8, 1.0), 2) == 1);
  CHECK(mean_pace(std::vector<double>{}, 2) == 1);
}

TEST_CASE("both sides of an exchange say what they count for by the rates they know") {
  for (const double power : {0.0, 2.0}) {
    CAPTURE(power);
    CoreBench bench;
    bench.config.rate_power = power;
    bench.start_swarm(3);
    const float rates[] = {1000, 250, 500};
    for (int second = 0; second < 10; ++second) {  // until the news is everywhere
      for (std::uint64_t id = 1; id <= 3; ++id) {
        bench.core(id).on_progress(bench.now, 1000 * (1 + second), rates[id - 1]);
      }
      bench.run(seconds(1));
    }
    CHECK(bench.core(1).weight() == 1.0F);
    CHECK(bench.core(2).weight() == (power > 0 ? 1.0F / 16 : 1.0F));
    std::vector<float> offered, accepted;
    bench.passes = [&](const Letter& letter) {
      if (is<Offer>(letter.message)) offered.push_back(std::get<Offer>(letter.message).weight);
      if (is<Accept>(letter.message)) accepted.push_back(std::get<Accept>(letter.message).weight);
      return true;
    };
    bench.publish(2, 0);
    bench.run(seconds(5));
    REQUIRE(offered.size() == 1);
    REQUIRE(accepted.size() == 1);
    CHECK(offered[0] == bench.core(2).weight());
    CHECK((accepted[0] == bench.core(1).weight() || accepted[0] == bench.core(3).weight()));
    // Who has died holds nobody down.
    bench.crash(1);
    bench.run(seconds(60));
    CHECK(bench.core(3).weight() == 1.0F);
  }
}

TEST_CASE(
    "one that comes back counts for no more than the slowest until its first step has ended") {
  CoreBench bench;
  bench.config.rate_power = 2;
  bench.start_swarm(3);
  const float rates[] = {1000, 10, 100};
  std::uint64_t tokens = 0;
  const auto train = [&](std::initializer_list<std::uint64_t> ids) {
    for (int second = 0; second < 10; ++second) {
      tokens += 1000;
      for (const std::uint64_t id : ids) {
        bench.core(id).on_progress(bench.now, tokens, rates[id - 1]);
      }
      bench.run(seconds(1));
    }
  };
  train({1, 2, 3});
  RestoredState restored;
  restored.tokens = bench.core(2).token_map();
  bench.crash(2);
  bench.start(2, 2, restored);
  bench.join(2, 1);
  train({1, 3});
  CHECK(bench.core(2).weight() == doctest::Approx(0.01));  // as the third
  CHECK(bench.core(2).speed_share() == 1);                 // what it plans by is not known yet
  bench.core(2).on_progress(bench.now, 20, 10);
  CHECK(bench.core(2).weight() == doctest::Approx(0.0001));
}

}  // namespace starling::gossip
