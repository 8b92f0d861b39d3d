#include "optim/schedule.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "base/rng.h"

namespace starling::optim {

namespace {

LrConfig config_of(LrShape shape) {
  LrConfig config;
  config.shape = shape;
  config.peak = 1e-3;
  config.floor_ratio = 0.1;
  config.warmup_tokens = 1e6;
  config.decay_start_tokens = 8e6;
  config.total_tokens = 1e7;
  return config;
}

constexpr LrShape kShapes[] = {LrShape::kConstant, LrShape::kCosine, LrShape::kWarmupStableDecay};

}  // namespace

TEST_CASE("the learning rate has the textbook's values at the corners of each shape") {
  for (const LrShape shape : kShapes) {
    CAPTURE(static_cast<int>(shape));
    const LrConfig config = config_of(shape);
    CHECK(learning_rate(config, 0.0, 0) == 0.0f);
    CHECK(learning_rate(config, 5e5, 0) == doctest::Approx(5e-4));
    CHECK(learning_rate(config, 1e6, 0) == doctest::Approx(1e-3));
  }
  CHECK(learning_rate(config_of(LrShape::kConstant), 1e12, 0) == doctest::Approx(1e-3));
  CHECK(learning_rate(config_of(LrShape::kCosine), 5.5e6, 0) == doctest::Approx(5.5e-4));
  CHECK(learning_rate(config_of(LrShape::kWarmupStableDecay), 8e6, 0) == doctest::Approx(1e-3));
  CHECK(learning_rate(config_of(LrShape::kWarmupStableDecay), 9e6, 0) == doctest::Approx(5.5e-4));
}

TEST_CASE("the learning rate rises through warm-up and never rises after it") {
  for (const LrShape shape : kShapes) {
    CAPTURE(static_cast<int>(shape));
    const LrConfig config = config_of(shape);
    float before = 0.0f;
    for (int i = 1; i <= 100; ++i) {
      const float rate = learning_rate(config, 1e4 * i, 0);
      CHECK(rate > before);
      before = rate;
    }
    for (int i = 101; i <= 1200; ++i) {
      const float rate = learning_rate(config, 1e4 * i, 0);
      CHECK(rate <= before);
      before = rate;
    }
  }
}

TEST_CASE("a peer that runs past the end keeps the floor of the learning rate") {
  for (const LrShape shape : {LrShape::kCosine, LrShape::kWarmupStableDecay}) {
    const LrConfig config = config_of(shape);
    CHECK(learning_rate(config, 1e7, 0) == doctest::Approx(1e-4));
    CHECK(learning_rate(config, 1e15, 0) == doctest::Approx(1e-4));
  }
}

TEST_CASE("a newcomer warms up over its own steps whatever the swarm has seen") {
  LrConfig config = config_of(LrShape::kConstant);
  config.local_warmup_steps = 200;
  CHECK(learning_rate(config, 5e6, 0) == doctest::Approx(1e-3 / 200));
  CHECK(learning_rate(config, 5e6, 99) == doctest::Approx(5e-4));
  CHECK(learning_rate(config, 5e6, 199) == doctest::Approx(1e-3));
  CHECK(learning_rate(config, 5e6, 1000000) == doctest::Approx(1e-3));
}

TEST_CASE("a schedule without warm-up starts at its peak") {
  LrConfig config = config_of(LrShape::kCosine);
  config.warmup_tokens = 0.0;
  CHECK(learning_rate(config, 0.0, 0) == doctest::Approx(1e-3));
}

TEST_CASE("every fragment is due exactly once in any steps_per_round consecutive steps") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    FragmentSchedule schedule;
    schedule.steps_per_round = static_cast<std::uint32_t>(1 + rng.below(120));
    schedule.fragments = static_cast<std::uint16_t>(1 + rng.below(schedule.steps_per_round));
    const std::uint64_t start = 1 + rng.below(1000);
    std::vector<int> due(schedule.fragments, 0);
    for (std::uint64_t s = start; s < start + schedule.steps_per_round; ++s) {
      const auto fragment = fragment_due(schedule, StepIndex{s});
      if (!fragment) continue;
      REQUIRE(fragment->value < schedule.fragments);
      ++due[fragment->value];
      // Where the definition says: p * H / P, and every H from there.
      const std::uint64_t offset =
          std::uint64_t{fragment->value} * schedule.steps_per_round / schedule.fragments;
      CHECK(s % schedule.steps_per_round == offset);
    }
    CHECK(due == std::vector<int>(schedule.fragments, 1));
  }
}

TEST_CASE("no fragment is due before the first step") {
  CHECK(!fragment_due({.steps_per_round = 50, .fragments = 2}, StepIndex{0}));
  CHECK(fragment_due({.steps_per_round = 50, .fragments = 2}, StepIndex{25}) == FragmentId{1});
  CHECK(fragment_due({.steps_per_round = 50, .fragments = 2}, StepIndex{50}) == FragmentId{0});
}

}  // namespace starling::optim
