#include "optim/schedule.h"

#include <doctest/doctest.h>

#include <cmath>
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

// Where the warm-up has missed nothing.
SwarmTokens at(double tokens) { return {.all = tokens, .warmed = tokens}; }

constexpr LrShape kShapes[] = {LrShape::kConstant, LrShape::kCosine, LrShape::kWarmupStableDecay};

}  // namespace

TEST_CASE("the learning rate has the textbook's values at the corners of each shape") {
  for (const LrShape shape : kShapes) {
    CAPTURE(static_cast<int>(shape));
    const LrConfig config = config_of(shape);
    CHECK(learning_rate(config, at(0.0), 0) == 0.0f);
    CHECK(learning_rate(config, at(5e5), 0) == doctest::Approx(5e-4));
    CHECK(learning_rate(config, at(1e6), 0) == doctest::Approx(1e-3));
  }
  CHECK(learning_rate(config_of(LrShape::kConstant), at(1e12), 0) == doctest::Approx(1e-3));
  CHECK(learning_rate(config_of(LrShape::kCosine), at(5.5e6), 0) == doctest::Approx(5.5e-4));
  CHECK(learning_rate(config_of(LrShape::kWarmupStableDecay), at(8e6), 0) == doctest::Approx(1e-3));
  CHECK(learning_rate(config_of(LrShape::kWarmupStableDecay), at(9e6), 0) ==
        doctest::Approx(5.5e-4));
}

TEST_CASE("a warm-up that lags behind the swarm holds the rate below its decay") {
  const LrConfig config = config_of(LrShape::kCosine);
  CHECK(learning_rate(config, {.all = 9e5, .warmed = 2e5}, 0) == doctest::Approx(2e-4));
  CHECK(learning_rate(config, {.all = 5.5e6, .warmed = 5e5}, 0) == doctest::Approx(2.75e-4));
  CHECK(learning_rate(config, {.all = 5.5e6, .warmed = 1e6}, 0) == doctest::Approx(5.5e-4));
}

TEST_CASE("the learning rate rises through warm-up and never rises after it") {
  for (const LrShape shape : kShapes) {
    CAPTURE(static_cast<int>(shape));
    const LrConfig config = config_of(shape);
    float before = 0.0f;
    for (int i = 1; i <= 100; ++i) {
      const float rate = learning_rate(config, at(1e4 * i), 0);
      CHECK(rate > before);
      before = rate;
    }
    for (int i = 101; i <= 1200; ++i) {
      const float rate = learning_rate(config, at(1e4 * i), 0);
      CHECK(rate <= before);
      before = rate;
    }
  }
}

TEST_CASE("a peer that runs past the end keeps the floor of the learning rate") {
  for (const LrShape shape : {LrShape::kCosine, LrShape::kWarmupStableDecay}) {
    const LrConfig config = config_of(shape);
    CHECK(learning_rate(config, at(1e7), 0) == doctest::Approx(1e-4));
    CHECK(learning_rate(config, at(1e15), 0) == doctest::Approx(1e-4));
  }
}

TEST_CASE("a newcomer warms up over its own steps whatever the swarm has seen") {
  LrConfig config = config_of(LrShape::kConstant);
  config.local_warmup_steps = 200;
  CHECK(learning_rate(config, at(5e6), 0) == doctest::Approx(1e-3 / 200));
  CHECK(learning_rate(config, at(5e6), 99) == doctest::Approx(5e-4));
  CHECK(learning_rate(config, at(5e6), 199) == doctest::Approx(1e-3));
  CHECK(learning_rate(config, at(5e6), 1000000) == doctest::Approx(1e-3));
}

TEST_CASE("a schedule without warm-up starts at its peak") {
  LrConfig config = config_of(LrShape::kCosine);
  config.warmup_tokens = 0.0;
  CHECK(learning_rate(config, at(0.0), 0) == doctest::Approx(1e-3));
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

TEST_CASE("a clock with rounds of one length names the fragments that are due, from any step on") {
  for (const std::uint16_t fragments : std::vector<std::uint16_t>{1, 2, 3, 5, 10}) {
    for (const std::uint32_t steps : {10U, 11U, 25U, 100U}) {
      const FragmentSchedule schedule{.steps_per_round = steps, .fragments = fragments};
      for (std::uint64_t start = 0; start < 2 * steps; ++start) {
        FragmentClock clock(schedule, start);
        for (std::uint64_t step = start + 1; step < start + 2 * steps; ++step) {
          CAPTURE(step);
          REQUIRE(clock.step(steps) == fragment_due(schedule, StepIndex{step}));
        }
      }
    }
  }
}

TEST_CASE("when rounds change their length, fragments follow each other all the same") {
  const FragmentSchedule schedule{.steps_per_round = 60, .fragments = 4};
  FragmentClock clock(schedule, 0);
  std::uint16_t next = 1;
  std::uint32_t since = 0;
  Rng rng(3);
  for (int change = 0; change < 200; ++change) {
    const auto steps = static_cast<std::uint32_t>(4 + rng.below(200));
    std::uint32_t due_in_round = 0;
    for (std::uint32_t step = 0; step < steps; ++step) {
      ++since;
      const auto due = clock.step(steps);
      if (!due) continue;
      CHECK(due->value == next);
      CHECK(since <= steps / 4 + 64);  // never much longer than the longer of the two rounds
      next = static_cast<std::uint16_t>((next + 1) % 4);
      since = 0;
      ++due_in_round;
    }
    CHECK(due_in_round >= 3);
    CHECK(due_in_round <= 5);
  }
}

TEST_CASE("dynamic local steps follow the speed, within bounds") {
  const FragmentSchedule schedule{.steps_per_round = 100, .fragments = 5};
  CHECK(dynamic_local_steps(schedule, 1) == 100);
  CHECK(dynamic_local_steps(schedule, 0.5) == 50);
  CHECK(dynamic_local_steps(schedule, 0.104) == 10);
  CHECK(dynamic_local_steps(schedule, 0.001) == 5);  // a step for each fragment
  CHECK(dynamic_local_steps({.steps_per_round = 100, .fragments = 1}, 0.001) == 4);
  CHECK(dynamic_local_steps({.steps_per_round = 2, .fragments = 1}, 0.001) == 2);
  CHECK(dynamic_local_steps(schedule, 3) == 300);
  CHECK(dynamic_local_steps(schedule, 1e30) == 400);
  CHECK(dynamic_local_steps(schedule, std::nan("")) == 5);
}

}  // namespace starling::optim
