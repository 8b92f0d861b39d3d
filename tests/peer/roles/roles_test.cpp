// The roles together, on one thread and in virtual time (tests/support/pumped_swarm.h): what is
// checked here holds for the real peer too, whose threads only call the same pump().
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "gossip/gentle_merge.h"
#include "tests/peer/roles/swarm_learns.h"
#include "tests/support/pumped_swarm.h"
#include "tests/support/worst.h"

namespace starling::peer {

namespace {

using testing::PumpedOptions;
using testing::PumpedSwarm;
using testing::small_swarm;

// No training at all: only gossip moves the weights.
PumpedOptions only_gossip(std::uint64_t seed) {
  PumpedOptions options = small_swarm(seed);
  options.trainer.schedule.peak = 0;
  options.trainer.init_seed = 100;
  options.different_starts = true;
  options.mixer.clip_factor = 0;
  options.gossip.lag_discount = 0;  // all count alike, to the last bit
  return options;
}

std::vector<double> mean_of_slow(PumpedSwarm& swarm) {
  std::vector<double> mean(swarm.mixer(0).slow().size(), 0.0);
  for (std::uint32_t p = 0; p < swarm.size(); ++p) {
    const auto slow = swarm.mixer(p).slow();
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += slow[i] / static_cast<double>(swarm.size());
  }
  return mean;
}

double distance(std::span<const double> left, std::span<const double> right) {
  double sum = 0;
  for (std::size_t i = 0; i < left.size(); ++i) sum += (left[i] - right[i]) * (left[i] - right[i]);
  return std::sqrt(sum / static_cast<double>(left.size()));
}

// RMS over peers and parameters of phi_i - mean phi.
double disagreement(PumpedSwarm& swarm) {
  const auto mean = mean_of_slow(swarm);
  double sum = 0;
  for (std::uint32_t p = 0; p < swarm.size(); ++p) {
    const auto slow = swarm.mixer(p).slow();
    for (std::size_t i = 0; i < mean.size(); ++i) sum += (slow[i] - mean[i]) * (slow[i] - mean[i]);
  }
  return std::sqrt(sum / static_cast<double>(mean.size() * swarm.size()));
}

std::vector<float> weights_of(const Trainer& trainer) {
  const auto weights = trainer.weights();
  return {weights.data, weights.data + weights.size};
}

}  // namespace

TEST_CASE("a swarm pumped on one thread learns and its peers agree") {
  PumpedOptions options = small_swarm(1);
  options.steps = 150;
  PumpedSwarm swarm(options);
  const float before = swarm.trainer(0).validate();
  check_learns(swarm, before, 1.02F);
}

TEST_CASE("gossip alone keeps the mean of the slow weights and brings the peers together") {
  for (const auto format : optim::kWireFormats) {
    CAPTURE(optim::to_string(format));
    PumpedOptions options = only_gossip(2);
    options.gossip.format = static_cast<std::uint8_t>(format);
    options.steps = 200;
    PumpedSwarm swarm(options);
    const auto mean = mean_of_slow(swarm);
    const double apart = disagreement(swarm);
    swarm.run(std::chrono::seconds(10));
    CHECK(distance(mean, mean_of_slow(swarm)) < 5e-6 * apart);
    CHECK(disagreement(swarm) < 0.01 * apart);
  }
}

TEST_CASE("lost messages on both lanes cost time, not the mean") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    PumpedOptions options = only_gossip(seed);
    options.loss_probability = 0.1;
    options.steps = 300;
    PumpedSwarm swarm(options);
    const auto mean = mean_of_slow(swarm);
    const double apart = disagreement(swarm);
    swarm.run(std::chrono::seconds(60));
    CHECK(distance(mean, mean_of_slow(swarm)) < 5e-6 * apart);
    CHECK(disagreement(swarm) < 0.05 * apart);
  }
}

TEST_CASE("a fragment larger than all slots is mixed whole") {
  PumpedOptions options = only_gossip(6);
  options.peers = 2;
  options.steps = 60;
  options.slots = 4;
  options.trainer.model.vocabulary = 50000;  // six stripes of embedding
  options.trainer.batch = {.sequences = 1, .tokens = 4};
  PumpedSwarm swarm(options);
  const double apart = disagreement(swarm);
  swarm.run(std::chrono::seconds(20));
  CHECK(disagreement(swarm) < 0.05 * apart);
  CHECK(swarm.core(0).stats().exchanges_completed > 0);
}

TEST_CASE("outer steps are as long as the steps trained and the peers there allow") {
  PumpedOptions options = small_swarm(8);
  options.outer.gain = 2;
  options.outer.gain_warmup_steps = 120;
  for (const std::uint32_t peers : {1U, 2U, 4U}) {
    CAPTURE(peers);
    options.peers = peers;
    const auto gain_after = [&](std::uint64_t steps) {
      options.steps = steps;
      PumpedSwarm swarm(options);
      swarm.run(std::chrono::seconds(10));
      return swarm.mixer_metrics(0).gain.value();
    };
    const double others = 1 - 1.0 / peers;
    CHECK(gain_after(60) == doctest::Approx(1 + others / 2));
    CHECK(gain_after(150) == doctest::Approx(1 + others));
  }
}

TEST_CASE("after training ends theta and phi are one") {
  PumpedOptions options = small_swarm(3);
  options.steps = 60;
  PumpedSwarm swarm(options);
  swarm.run(std::chrono::seconds(10));
  for (std::uint32_t p = 0; p < swarm.size(); ++p) {
    const auto fast = weights_of(swarm.trainer(p));
    const auto slow = swarm.mixer(p).slow();
    float worst = 0;
    for (std::size_t i = 0; i < fast.size(); ++i) {
      testing::note_worst(worst, std::abs(fast[i] - slow[i]));
    }
    CHECK(worst < 1e-5F);
  }
}

TEST_CASE("a batch in parts has the gradient and the loss of the whole") {
  PumpedOptions options = small_swarm(7);
  options.peers = 1;
  options.steps = 1;
  std::vector<std::vector<float>> gradients;
  std::vector<float> losses;
  for (const std::int64_t micro : {4, 2, 1}) {
    options.trainer.micro_batch = micro;
    PumpedSwarm swarm(options);
    losses.push_back(swarm.trainer(0).validate());
    swarm.run(std::chrono::seconds(1));
    const auto gradient = swarm.trainer(0).gradients();
    gradients.emplace_back(gradient.data, gradient.data + gradient.size);
  }
  double norm = 0;
  for (const float value : gradients[0]) norm += value * value;
  REQUIRE(norm > 0);
  for (std::size_t parts = 1; parts < 3; ++parts) {
    double apart = 0;
    for (std::size_t i = 0; i < gradients[0].size(); ++i) {
      apart += std::pow(gradients[parts][i] - gradients[0][i], 2);
    }
    CHECK(apart < 1e-10 * norm);
    CHECK(losses[parts] == doctest::Approx(losses[0]));
  }
}

TEST_CASE("the same seed gives the same weights bit for bit") {
  PumpedOptions options = small_swarm(4);
  options.steps = 40;
  options.loss_probability = 0.05;
  PumpedSwarm first(options);
  PumpedSwarm second(options);
  first.run(std::chrono::seconds(5));
  second.run(std::chrono::seconds(5));
  for (std::uint32_t p = 0; p < first.size(); ++p) {
    CHECK(weights_of(first.trainer(p)) == weights_of(second.trainer(p)));
  }
}

TEST_CASE("two halves that drifted apart glide together") {
  PumpedOptions options = small_swarm(6);
  options.steps = 400;
  options.mixer.clip_factor = 0.25F;  // the halves learn the same data and do not get far apart
  options.gossip.suspect_after = std::chrono::seconds(1);
  options.gossip.dead_after = std::chrono::seconds(1);
  options.gossip.ping_interval = std::chrono::milliseconds(500);
  PumpedSwarm swarm(options);
  swarm.pump_until(100);
  swarm.reaches = [](std::uint32_t from, std::uint32_t to) { return from % 2 == to % 2; };
  // The split is reported, and the radii remembered, in the second half of the time apart.
  float usual = 0, step = 0;
  for (const std::uint64_t steps : {250, 300, 350, 400}) {
    swarm.pump_until(steps);
    for (std::uint32_t p = 0; p < swarm.size(); ++p) {
      for (const auto& [fragment, state] : swarm.fragment_states(p)) {
        usual = std::max(usual, state.clip_radius);
        step = std::max(step, state.step);
      }
    }
  }
  swarm.pump_for(std::chrono::seconds(1));
  // Nobody trains any more: from here on only exchanges move the weights.
  const auto slow_of = [&swarm](std::uint32_t p) {
    const auto slow = swarm.mixer(p).slow();
    return std::vector<double>(slow.begin(), slow.end());
  };
  const double apart = distance(slow_of(0), slow_of(1));
  CHECK(apart > 2 * usual);
  swarm.reaches = nullptr;
  double largest = 0;
  for (int i = 0; i < 12'000; ++i) {
    std::vector<std::vector<double>> before;
    for (std::uint32_t p = 0; p < swarm.size(); ++p) before.push_back(slow_of(p));
    swarm.pump_for(std::chrono::milliseconds(5));
    for (std::uint32_t p = 0; p < swarm.size(); ++p) {
      largest = std::max(largest, distance(before[p], slow_of(p)));
    }
  }
  MESSAGE("apart by " << apart << ", usual radius " << usual << ", largest step " << largest
                      << ", apart in the end " << distance(slow_of(0), slow_of(1)));
  CHECK(largest > 0);
  // A tenth of the way come, at most half of the distance, above the usual step, or as far as a few
  // outer steps: gentle_merge.h.
  const double glide = options.gossip.mixing * usual + 0.1 * apart / 2;
  const double stride = options.gossip.mixing * gossip::GentleMerge::kSteps * step;
  CHECK(largest <= 1.01 * std::max(glide, stride));
  CHECK(largest < 0.2 * apart);
  CHECK(distance(slow_of(0), slow_of(1)) < 0.1 * apart);
}

TEST_CASE("a killed peer comes back from its image and catches up") {
  PumpedOptions options = small_swarm(5);
  options.steps = 200;
  options.trainer.checkpoint_every_steps = 20;
  options.gossip.suspect_after = std::chrono::seconds(1);
  options.gossip.dead_after = std::chrono::seconds(1);
  PumpedSwarm swarm(options);
  swarm.pump_until(60);
  swarm.kill(3);
  swarm.pump_until(120);
  CHECK(swarm.trainer(0).progress().steps == 120);
  swarm.restart(3);
  CHECK(swarm.trainer(3).progress().steps >= 40);
  swarm.run(std::chrono::seconds(30));
  const float whole = swarm.trainer(0).validate();
  const float restarted = swarm.trainer(3).validate();
  MESSAGE("validation loss " << whole << ", restarted peer " << restarted);
  CHECK(restarted / whole < 1.05F);
  CHECK(swarm.core(0).stats().peers_alive == 3);
}

}  // namespace starling::peer
