// Consensus speed: 64 peers that do nothing but gossip, through the real rule and the real codec.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "optim/outer_noloco.h"
#include "optim/outer_rule.h"
#include "optim/vector_math.h"
#include "tests/optim/codec_support.h"

namespace starling::optim {

namespace {

constexpr std::size_t kPeers = 64;
constexpr std::size_t kCount = 2 * kBlockParameters;
constexpr int kRounds = 8;

struct Swarm {
  std::vector<std::vector<float>> slow;

  // Mean over the parameters of the variance over the peers.
  double variance() const {
    double total = 0.0;
    for (std::size_t i = 0; i < kCount; ++i) {
      double sum = 0.0;
      double squares = 0.0;
      for (const auto& weights : slow) {
        sum += weights[i];
        squares += double{weights[i]} * weights[i];
      }
      total += squares / kPeers - sum * sum / kPeers / kPeers;
    }
    return total / kCount;
  }

  std::vector<double> sums() const {
    std::vector<double> result(kCount);
    for (const auto& weights : slow) {
      for (std::size_t i = 0; i < kCount; ++i) result[i] += weights[i];
    }
    return result;
  }
};

std::vector<std::size_t> random_order(Rng& rng) {
  std::vector<std::size_t> order(kPeers);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = kPeers - 1; i > 0; --i) std::swap(order[i], order[rng.below(i + 1)]);
  return order;
}

// The trainer made no step: the outer step must leave everything as it is.
void outer_step(const OuterRule& rule, std::vector<float>& slow) {
  std::vector<float> momentum(kCount, 0.0f);
  std::vector<float> local = slow;
  const OuterReport report = rule.step({}, slow, momentum, local);
  REQUIRE(report.displacement_rms == 0.0);
  REQUIRE(local == std::vector<float>(kCount, 0.0f));
}

struct Outcome {
  double ratio = 0.0;     // of the variance, per round, geometric mean
  double expected = 0.0;  // by theory
};

// A random perfect matching per round. V' = V (1 - 2 g (1 - g) n / (n - 1)), plus the variance of
// the codes, step^2 / 6 per difference, that each side takes g-fold.
Outcome run(WireFormat format, float mixing, std::uint64_t seed) {
  Rng rng(seed);
  auto rule = make_outer_rule({.method = OuterMethod::kPairGossip, .mixing = mixing});
  REQUIRE(rule.ok());
  Swarm swarm;
  for (std::size_t p = 0; p < kPeers; ++p) swarm.slow.push_back(normal_values(rng, kCount, 1.0f));
  const std::vector<double> sums = swarm.sums();
  const double crowd = kPeers / (kPeers - 1.0);
  double log_ratio = 0.0;
  double log_expected = 0.0;
  for (int round = 0; round < kRounds; ++round) {
    const double before = swarm.variance();
    const double sigma = std::sqrt(2.0 * crowd * before);
    const int exponent = is_modular(format) ? exponent_for(6.0 * sigma / largest_code(format)) : 0;
    const double noise = is_modular(format) ? std::pow(lattice_step(exponent), 2) / 6.0 : 0.0;
    const std::vector<std::size_t> order = random_order(rng);
    for (std::size_t p = 0; p < kPeers; p += 2) {
      auto& initiator = swarm.slow[order[p]];
      auto& responder = swarm.slow[order[p + 1]];
      outer_step(*std::as_const(rule.value()), initiator);
      const Exchanged e = exchange_stripe(format, rng.next(), initiator, responder, exponent);
      const PairFactors factors = pair_factors(mixing, 1.0f, 1.0f);
      add_scaled(initiator, factors.initiator, e.difference);
      add_scaled(responder, -factors.responder, e.difference);
      REQUIRE(e.report.blocks_skipped == 0);
    }
    log_ratio += std::log(swarm.variance() / before) / kRounds;
    log_expected +=
        std::log(1.0 - 2.0 * mixing * (1.0 - mixing) * crowd + mixing * mixing * noise / before) /
        kRounds;
  }
  const std::vector<double> after = swarm.sums();
  for (std::size_t i = 0; i < kCount; ++i) REQUIRE(std::abs(after[i] - sums[i]) < 1e-4);
  return {std::exp(log_ratio), std::exp(log_expected)};
}

// Noloco's pairs, which do nothing but meet. Ratio of the variance per round, once the momentum has
// settled.
double noloco_ratio(float alpha, float gamma) {
  constexpr int kSettling = 12;
  constexpr int kMeasured = 16;
  const Noloco noloco({.method = OuterMethod::kNoloco, .momentum = alpha, .group_pull = gamma});
  Rng rng(102);
  Swarm swarm;
  for (std::size_t p = 0; p < kPeers; ++p) swarm.slow.push_back(normal_values(rng, kCount, 1.0f));
  std::vector<std::vector<float>> momentum(kPeers, std::vector<float>(kCount, 0.0f));
  std::vector<std::vector<float>> fast = swarm.slow;
  double settled = 0.0;
  for (int round = 0; round < kSettling + kMeasured; ++round) {
    if (round == kSettling) settled = swarm.variance();
    const std::vector<std::size_t> order = random_order(rng);
    for (std::size_t pair = 0; pair < kPeers; pair += 2) {
      std::vector<Parcel> parcels(2);
      Parcel combined;
      std::vector<ExchangeState> states;
      for (std::size_t side = 0; side < 2; ++side) {
        const std::size_t p = order[pair + side];
        states.push_back(
            {.slow = swarm.slow[p], .momentum = momentum[p], .fast = fast[p], .gradient = {}});
        noloco.offer(states[side], parcels[side]);
      }
      noloco.combine(std::vector<const Parcel*>{&parcels[0], &parcels[1]}, combined);
      for (std::size_t side = 0; side < 2; ++side) {
        noloco.take(states[side], parcels[side], combined);
      }
    }
  }
  return std::pow(swarm.variance() / settled, 1.0 / kMeasured);
}

}  // namespace

TEST_CASE("the swarm's disagreement shrinks by the factor of theory in every wire format") {
  for (const WireFormat format : kWireFormats) {
    for (const float mixing : {0.5f, 0.25f}) {
      CAPTURE(to_string(format));
      CAPTURE(mixing);
      const Outcome outcome = run(format, mixing, 101);
      CHECK(outcome.ratio == doctest::Approx(outcome.expected).epsilon(0.01));
      if (code_bits(format) < 6) continue;  // whose noise is more than what is asserted here
      CHECK(outcome.ratio == doctest::Approx(mixing == 0.5f ? 0.492 : 0.619).epsilon(0.01));
    }
  }
}

TEST_CASE("noloco's disagreement shrinks by its own factor, and grows beyond its bound") {
  CHECK(noloco_ratio(0.5f, 0.7f) == doctest::Approx(0.70).epsilon(0.03));
  CHECK(noloco_ratio(0.9f, 0.9f) == doctest::Approx(1.17).epsilon(0.03));
}

}  // namespace starling::optim
