#include "optim/outer_rule.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "optim/outer_local.h"
#include "optim/outer_pair_gossip.h"
#include "optim/vector_math.h"
#include "tests/support/worst.h"

namespace starling::optim {

namespace {

std::unique_ptr<OuterRule> rule_of(const OuterConfig& config) {
  auto made = make_outer_rule(config);
  REQUIRE(made.ok());
  return std::move(made).value();
}

struct PeerState {
  std::vector<float> slow, momentum, fast;
};

PeerState random_peer(Rng& rng, std::size_t count) {
  PeerState peer;
  for (std::size_t i = 0; i < count; ++i) {
    peer.slow.push_back(rng.normal());
    peer.momentum.push_back(0.1f * rng.normal());
    peer.fast.push_back(peer.slow.back() + 0.1f * rng.normal());
  }
  return peer;
}

// An outer step as the trainer sees it: the correction is added to the fast weights.
OuterReport outer_step(const OuterRule& rule, PeerState& peer) {
  std::vector<float> local = peer.fast;
  const OuterReport report = rule.step({}, peer.slow, peer.momentum, local);
  add_scaled(peer.fast, 1.0f, local);
  return report;
}

std::vector<float> difference(const std::vector<float>& left, const std::vector<float>& right) {
  std::vector<float> result = left;
  add_scaled(result, -1.0f, right);
  return result;
}

// Exact exchange: both sides, slow and fast.
void exchange(PeerState& initiator, PeerState& responder, const PairFactors& factors) {
  const std::vector<float> d = difference(responder.slow, initiator.slow);
  add_scaled(initiator.slow, factors.initiator, d);
  add_scaled(initiator.fast, factors.initiator, d);
  add_scaled(responder.slow, -factors.responder, d);
  add_scaled(responder.fast, -factors.responder, d);
}

}  // namespace

TEST_CASE("the outer step is the heavy ball worked out by hand") {
  const PairGossip rule({.momentum = 0.5f, .learning_rate = 0.75f});
  std::vector<float> slow = {1.0f, 2.0f};
  std::vector<float> momentum = {0.5f, 0.0f};
  std::vector<float> local = {3.0f, 2.0f};
  const OuterReport report = rule.step({}, slow, momentum, local);
  // displacement 2 and 0; momentum 0.25 + 1.5 and 0; correction momentum - displacement.
  CHECK(momentum == std::vector<float>{1.75f, 0.0f});
  CHECK(slow == std::vector<float>{2.75f, 2.0f});
  CHECK(local == std::vector<float>{-0.25f, 0.0f});
  CHECK(report.displacement_rms == doctest::Approx(std::sqrt(2.0)));
  CHECK(report.gain == 1.5);
  CHECK(rule.exchanges());
  CHECK(rule.name() == "pair_gossip");
}

TEST_CASE("the gain grows with the others and with the training, up to what is configured") {
  const OuterConfig config{
      .momentum = 0.25f, .learning_rate = 0.75f, .gain = 2.0f, .gain_warmup_steps = 1000};
  const auto gain = [](const OuterConfig& of, const OuterStage& stage) {
    return outer_gain(scalars_at(of, stage));
  };
  CHECK(gain(config, {.steps = 1000, .equal_peers = 8}) == doctest::Approx(1.875));
  CHECK(gain(config, {.steps = 250, .equal_peers = 2}) == doctest::Approx(1.125));
  CHECK(gain(config, {.steps = 0, .equal_peers = 8}) == 1);
  CHECK(gain(config, {.steps = 1'000'000'000, .equal_peers = 1e9}) == doctest::Approx(2));
  // Alone, also where nobody is known yet, there is no reason for it.
  CHECK(gain(config, {.steps = 5000, .equal_peers = 1}) == 1);
  CHECK(gain(config, {.steps = 5000, .equal_peers = 0}) == 1);
  OuterConfig other = config;
  other.gain_warmup_steps = 0;
  CHECK(gain(other, {.steps = 0, .equal_peers = 2}) == doctest::Approx(1.5));
  other.gain = 0.5f;  // less than it has anyway
  CHECK(gain(other, {.steps = 5000, .equal_peers = 8}) == 1);
  // Momentum alone makes it grow.
  const HeavyBallScalars scalars = scalars_at(config, {.steps = 1000, .equal_peers = 1e9});
  CHECK(scalars.momentum == doctest::Approx(1 - 0.75 / 2));
  CHECK(scalars.learning_rate == 0.75f);
}

TEST_CASE("a peer alone trains as if there were no outer step") {
  const auto rule = rule_of({});
  Rng rng(4);
  PeerState peer = random_peer(rng, 100);
  const std::vector<float> trained = peer.fast;
  for (const std::uint64_t steps : {0U, 250U, 100'000U}) {
    const OuterStage stage{.steps = steps, .equal_peers = 1};
    std::vector<float> local = peer.fast;
    CHECK(rule->step(stage, peer.slow, peer.momentum, local).gain == 1);
    // The correction that the weights get is what rounding makes of nothing.
    for (std::size_t i = 0; i < 100; ++i) {
      CHECK(peer.slow[i] == doctest::Approx(trained[i]).epsilon(1e-6));
      CHECK(std::abs(local[i]) <= 1e-6f * (1 + std::abs(trained[i])));
    }
  }
}

TEST_CASE("a lasting displacement moves the weights so many times as far as the gain says") {
  const auto rule = rule_of({.momentum = 0.3f, .learning_rate = 0.7f, .gain = 3.0f});
  const OuterStage stage{.steps = 100'000, .equal_peers = 4};  // gain 2.5
  std::vector<float> slow = {0.0f};
  std::vector<float> momentum = {0.0f};
  OuterReport report;
  for (int round = 0; round < 100; ++round) {
    std::vector<float> local = {slow[0] + 1.0f};
    report = rule->step(stage, slow, momentum, local);
  }
  CHECK(momentum[0] == doctest::Approx(2.5));
  CHECK(report.gain == doctest::Approx(2.5));
}

TEST_CASE("one peer with one fragment is a lookahead optimizer with heavy ball") {
  const auto rule = rule_of({.momentum = 0.3f, .learning_rate = 0.7f});
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    PeerState peer = random_peer(rng, 100);
    std::vector<double> slow(peer.slow.begin(), peer.slow.end());
    std::vector<double> momentum(peer.momentum.begin(), peer.momentum.end());
    std::vector<double> fast(peer.fast.begin(), peer.fast.end());
    double worst = 0.0;
    for (int round = 0; round < 30; ++round) {
      outer_step(*rule, peer);
      for (std::size_t i = 0; i < 100; ++i) {
        momentum[i] = 0.3 * momentum[i] + 0.7 * (fast[i] - slow[i]);
        slow[i] += momentum[i];
        testing::note_worst(worst, std::abs(slow[i] - peer.slow[i]));
        testing::note_worst(worst, std::abs(slow[i] - peer.fast[i]));
        const float inner = 0.1f * rng.normal();
        fast[i] = slow[i] + inner;
        peer.fast[i] += inner;
      }
    }
    CHECK(worst < 2e-5);
  }
}

TEST_CASE("without momentum the outer step with rate 1 moves the slow weights onto the fast ones") {
  const auto rule = rule_of({.momentum = 0.0f, .learning_rate = 1.0f});
  Rng rng(3);
  PeerState peer = random_peer(rng, 1000);
  const std::vector<float> fast = peer.fast;
  outer_step(*rule, peer);
  double worst = 0.0;
  for (std::size_t i = 0; i < fast.size(); ++i) {
    testing::note_worst(worst, std::abs(double{peer.slow[i]} - fast[i]));
  }
  CHECK(worst < 1e-6);
}

TEST_CASE("with alpha 0 and beta 1 gossip is local training with random pair averaging") {
  const auto rule = rule_of({.momentum = 0.0f, .learning_rate = 1.0f, .mixing = 0.5f});
  Rng rng(4);
  constexpr std::size_t kPeers = 6;
  std::vector<PeerState> peers;
  std::vector<std::vector<double>> models;
  const PeerState start = random_peer(rng, 50);
  for (std::size_t p = 0; p < kPeers; ++p) {
    peers.push_back({start.slow, std::vector<float>(50, 0.0f), start.slow});
    models.emplace_back(start.slow.begin(), start.slow.end());
  }
  double worst = 0.0;
  for (int round = 0; round < 40; ++round) {
    for (std::size_t p = 0; p < kPeers; ++p) {
      for (std::size_t i = 0; i < 50; ++i) {
        const float inner = 0.05f * rng.normal();
        peers[p].fast[i] += inner;
        models[p][i] += inner;
      }
      outer_step(*rule, peers[p]);
    }
    const std::size_t left = rng.below(kPeers);
    const std::size_t right = (left + 1 + rng.below(kPeers - 1)) % kPeers;
    exchange(peers[left], peers[right], pair_factors(0.5f, 1.0f, 1.0f));
    for (std::size_t i = 0; i < 50; ++i) {
      models[left][i] = models[right][i] = 0.5 * (models[left][i] + models[right][i]);
    }
    for (std::size_t p = 0; p < kPeers; ++p) {
      for (std::size_t i = 0; i < 50; ++i) {
        testing::note_worst(worst, std::abs(models[p][i] - peers[p].fast[i]));
      }
    }
  }
  CHECK(worst < 2e-5);
}

TEST_CASE("the displacement is the same before and after a gossip correction") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    PeerState peer = random_peer(rng, 200);
    PeerState partner = random_peer(rng, 200);
    const std::vector<float> before = difference(peer.fast, peer.slow);
    exchange(peer, partner, pair_factors(0.5f, 1.0f, 3.0f));
    const std::vector<float> after = difference(peer.fast, peer.slow);
    for (std::size_t i = 0; i < 200; ++i) {
      // Two additions round, each by half a unit in the last place of numbers below 8.
      REQUIRE(std::abs(after[i] - before[i]) <= 2 * 0x1p-22f);
    }
  }
}

TEST_CASE("late and reordered corrections conserve the weighted sum with what is pending") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    constexpr std::size_t kPeers = 8;
    constexpr std::size_t kCount = 64;
    const std::array<float, kPeers> weights = {1.0f, 0.125f, 8.0f, 2.0f, 0.5f, 1.0f, 3.0f, 1.0f};
    struct Pending {
      std::size_t peer;
      float factor;
      std::vector<float> difference;
    };
    std::vector<PeerState> peers;
    for (std::size_t p = 0; p < kPeers; ++p) peers.push_back(random_peer(rng, kCount));
    std::vector<Pending> pending;
    const auto sum = [&](std::size_t i) {
      double total = 0.0;
      for (std::size_t p = 0; p < kPeers; ++p) total += double{weights[p]} * peers[p].slow[i];
      for (const Pending& late : pending) {
        total += double{weights[late.peer]} * late.factor * late.difference[i];
      }
      return total;
    };
    std::vector<double> before(kCount);
    for (std::size_t i = 0; i < kCount; ++i) before[i] = sum(i);
    for (int event = 0; event < 1000; ++event) {
      const std::size_t left = rng.below(kPeers);
      const std::size_t right = (left + 1 + rng.below(kPeers - 1)) % kPeers;
      const auto d = difference(peers[right].slow, peers[left].slow);
      const PairFactors factors = pair_factors(0.5f, weights[left], weights[right]);
      pending.push_back({left, factors.initiator, d});
      pending.push_back({right, -factors.responder, d});
      while (pending.size() > 10) {
        const std::size_t pick = rng.below(pending.size());
        add_scaled(peers[pending[pick].peer].slow, pending[pick].factor, pending[pick].difference);
        pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(pick));
      }
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      // The weights sum to 16.6, the values are of order 1.
      CHECK(std::abs(sum(i) - before[i]) < 16.6 * 3e-6);
    }
  }
}

TEST_CASE("pair factors move both sides in inverse proportion to their weights") {
  const PairFactors equal = pair_factors(0.5f, 1.0f, 1.0f);
  CHECK(equal.initiator == 0.5f);
  CHECK(equal.responder == 0.5f);
  const PairFactors gentle = pair_factors(0.25f, 3.0f, 1.0f);
  CHECK(gentle.initiator == 0.125f);
  CHECK(gentle.responder == 0.375f);
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const float left = static_cast<float>(0.125 + 8.0 * rng.unit());
    const float right = static_cast<float>(0.125 + 8.0 * rng.unit());
    const PairFactors factors = pair_factors(0.5f, left, right);
    CHECK(left * factors.initiator == doctest::Approx(right * factors.responder).epsilon(1e-6));
    const PairFactors mirrored = pair_factors(0.5f, right, left);
    CHECK(mirrored.initiator == factors.responder);
  }
}

TEST_CASE("a peer without weight takes everything and moves nobody") {
  const PairFactors newcomer = pair_factors(0.5f, 0.0f, 2.0f);
  CHECK(newcomer.initiator == 1.0f);
  CHECK(newcomer.responder == 0.0f);
  const PairFactors nobody = pair_factors(0.5f, 0.0f, 0.0f);
  CHECK(nobody.initiator == 0.0f);
  CHECK(nobody.responder == 0.0f);
  for (const float bad : {-1.0f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const PairFactors hostile = pair_factors(0.5f, 1.0f, bad);
    CHECK(hostile.initiator == 0.0f);
    CHECK(hostile.responder == 1.0f);
  }
}

TEST_CASE("fast weights that are not finite leave slow weights and momentum alone") {
  for (const OuterMethod method : {OuterMethod::kPairGossip, OuterMethod::kLocal}) {
    const auto rule = rule_of({.method = method});
    std::vector<float> slow = {1.0f, 2.0f};
    std::vector<float> momentum = {0.5f, 0.25f};
    for (const float bad : {std::nanf(""), -INFINITY, 0x1p126f}) {
      std::vector<float> local = {bad, 2.0f};
      const OuterReport report = rule->step({}, slow, momentum, local);
      CHECK(std::isinf(report.displacement_rms));
      CHECK(slow == std::vector<float>{1.0f, 2.0f});
      CHECK(momentum == std::vector<float>{0.5f, 0.25f});
    }
  }
}

TEST_CASE("a peer that trains alone is not corrected and its slow weights follow") {
  const LocalTraining rule;
  CHECK(!rule.exchanges());
  CHECK(rule.name() == "local");
  std::vector<float> slow = {1.0f, 2.0f};
  std::vector<float> momentum = {0.5f, 0.25f};
  std::vector<float> local = {4.0f, 2.0f};
  const OuterReport report = rule.step({}, slow, momentum, local);
  CHECK(slow == std::vector<float>{4.0f, 2.0f});
  CHECK(momentum == std::vector<float>{0.0f, 0.0f});
  CHECK(local == std::vector<float>{0.0f, 0.0f});
  CHECK(report.displacement_rms == doctest::Approx(3.0 / std::sqrt(2.0)));
}

TEST_CASE("a rule is made as configured, or refused with the reason") {
  CHECK(rule_of({})->name() == "pair_gossip");
  CHECK(rule_of({.method = OuterMethod::kLocal})->name() == "local");
  auto made = make_outer_rule({.momentum = 1.0f});
  REQUIRE(!made.ok());
  CHECK(made.error().message() == "outer momentum must be in [0, 1)");
}

}  // namespace starling::optim
