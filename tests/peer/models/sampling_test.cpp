#include "peer/models/sampling.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

namespace starling::peer {
namespace {

TEST_CASE("temperature zero takes the likeliest token, the smaller of equals") {
  const std::vector<float> logits = {0.5F, 2.0F, -1.0F, 2.0F};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    CHECK(sample_token(logits, {.temperature = 0, .top_k = 0}, rng) == 1);
  }
}

TEST_CASE("only the k likeliest tokens are ever drawn") {
  const std::vector<float> logits = {0.0F, 1.0F, 2.0F, 3.0F, 2.0F};
  std::array<int, 5> drawn{};
  Rng rng(7);
  for (int i = 0; i < 2000; ++i) {
    ++drawn[static_cast<std::size_t>(sample_token(logits, {.temperature = 5, .top_k = 2}, rng))];
  }
  CHECK(drawn[0] == 0);
  CHECK(drawn[1] == 0);
  CHECK(drawn[2] > 0);
  CHECK(drawn[3] > drawn[2]);
  CHECK(drawn[4] == 0);  // equal to token 2, which is the smaller one
}

TEST_CASE("tokens are drawn as often as their probability says") {
  const std::vector<float> logits = {0.0F, std::log(2.0F), std::log(5.0F)};
  std::array<double, 3> drawn{};
  Rng rng(11);
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) {
    drawn[static_cast<std::size_t>(sample_token(logits, {.temperature = 1, .top_k = 0}, rng))] +=
        1.0 / kDraws;
  }
  CHECK(drawn[0] == doctest::Approx(1.0 / 8).epsilon(0.1));
  CHECK(drawn[1] == doctest::Approx(2.0 / 8).epsilon(0.05));
  CHECK(drawn[2] == doctest::Approx(5.0 / 8).epsilon(0.03));
}

TEST_CASE("the nucleus is the fewest tokens that have p of the probability") {
  // Probabilities 0.5, 0.3, 0.15, 0.05, in another order.
  const std::vector<float> logits = {std::log(0.15F), std::log(0.5F), std::log(0.05F),
                                     std::log(0.3F)};
  const auto drawn = [&logits](double top_p, std::int64_t top_k) {
    std::array<double, 4> shares{};
    Rng rng(5);
    constexpr int kDraws = 20'000;
    for (int i = 0; i < kDraws; ++i) {
      const SamplingOptions options{.temperature = 1, .top_k = top_k, .top_p = top_p};
      shares[static_cast<std::size_t>(sample_token(logits, options, rng))] += 1.0 / kDraws;
    }
    return shares;
  };
  auto shares = drawn(0.79, 0);  // the second token is needed, and no third
  CHECK(shares[1] == doctest::Approx(0.625).epsilon(0.03));
  CHECK(shares[3] == doctest::Approx(0.375).epsilon(0.03));
  CHECK(shares[0] + shares[2] == 0);
  shares = drawn(0.81, 0);
  CHECK(shares[0] == doctest::Approx(0.15 / 0.95).epsilon(0.05));
  CHECK(shares[2] == 0);
  // Of what top-k has left, not of all: the two likeliest have 5/8 and 3/8 of it.
  shares = drawn(0.6, 2);
  CHECK(shares[1] == doctest::Approx(1));
  CHECK(drawn(0, 0)[1] == doctest::Approx(1));
  CHECK(drawn(1, 0)[2] > 0);
}

TEST_CASE("a seed gives one sequence of tokens") {
  const std::vector<float> logits = {0.0F, 0.1F, 0.2F, 0.3F};
  Rng left(3);
  Rng right(3);
  for (int i = 0; i < 100; ++i) {
    CHECK(sample_token(logits, {}, left) == sample_token(logits, {}, right));
  }
}

TEST_CASE("huge logits and few tokens are fine") {
  Rng rng(1);
  CHECK(sample_token(std::vector<float>{3e38F, -3e38F}, {}, rng) == 0);
  CHECK(sample_token(std::vector<float>{-1.0F}, {.temperature = 1, .top_k = 99}, rng) == 0);
}

}  // namespace
}  // namespace starling::peer
