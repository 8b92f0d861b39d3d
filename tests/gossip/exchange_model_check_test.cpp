#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tests/gossip/stripe_world.h"

namespace starling::gossip {
namespace {

struct Exploration {
  std::size_t states = 0;
  std::size_t steps = 0;
  const char* violation = nullptr;  // the first found, breadth first
  std::size_t never_settling = 0;   // states from which no settled one can be reached
};

// Marks everything from which a settled state can be reached without a crash.
std::size_t count_stuck(const std::vector<std::vector<std::uint32_t>>& comes_from,
                        std::vector<char> settles) {
  std::deque<std::uint32_t> queue;
  for (std::uint32_t i = 0; i < settles.size(); ++i) {
    if (settles[i] != 0) queue.push_back(i);
  }
  std::size_t reached = 0;
  while (!queue.empty()) {
    const std::uint32_t state = queue.front();
    queue.pop_front();
    ++reached;
    for (const std::uint32_t earlier : comes_from[state]) {
      if (settles[earlier] != 0) continue;
      settles[earlier] = 1;
      queue.push_back(earlier);
    }
  }
  return settles.size() - reached;
}

Exploration explore(const Limits& limits) {
  Exploration result;
  std::map<StripeWorld, std::uint32_t> numbers;
  std::deque<std::map<StripeWorld, std::uint32_t>::const_iterator> queue;
  std::vector<std::vector<std::uint32_t>> comes_from;
  std::vector<char> settles;
  const auto visit = [&](const StripeWorld& world) {
    const auto [item, fresh] = numbers.emplace(world, static_cast<std::uint32_t>(numbers.size()));
    if (fresh) {
      comes_from.emplace_back();
      settles.push_back(is_settled(world) ? 1 : 0);
      queue.push_back(item);
      if (result.violation == nullptr) result.violation = violation(world);
    }
    return item->second;
  };
  visit(StripeWorld(limits));
  while (!queue.empty() && result.violation == nullptr) {
    const auto item = queue.front();
    queue.pop_front();
    for (const Successor& next : successors(item->first, limits)) {
      const std::uint32_t number = visit(next.world);
      ++result.steps;
      if (!next.misfortune) comes_from[number].push_back(item->second);
    }
  }
  result.states = numbers.size();
  if (result.violation == nullptr) result.never_settling = count_stuck(comes_from, settles);
  return result;
}

void check_clean(const Limits& limits, std::size_t states_at_least) {
  const Exploration result = explore(limits);
  MESSAGE(int{limits.attempts} << " attempts, " << int{limits.crashes} << " crashes: "
                               << result.states << " states, " << result.steps << " steps");
  CHECK(result.violation == nullptr);
  CHECK(result.never_settling == 0);
  CHECK(result.states >= states_at_least);
}

void check_caught(Planted planted, std::uint8_t crashes) {
  const Exploration result = explore({2, crashes, planted});
  REQUIRE(result.violation != nullptr);
  MESSAGE("caught after " << result.states << " states: " << std::string(result.violation));
}

}  // namespace

TEST_CASE("no order of messages, timeouts and refusals breaks a stripe apart") {
  check_clean({2, 0, Planted::kNothing}, 1000);
}

TEST_CASE("no crash and restart from any checkpoint breaks a stripe apart") {
  check_clean({2, 1, Planted::kNothing}, 10000);
}

TEST_CASE("no two crashes break a single attempt apart") {
  check_clean({1, 2, Planted::kNothing}, 10000);
}

TEST_CASE("no two crashes break two attempts apart") {
  check_clean({2, 2, Planted::kNothing}, 30000);
}

// 13 million states take minutes: by hand, with --no-skip.
TEST_CASE("no crash breaks three attempts apart" * doctest::skip()) {
  check_clean({3, 1, Planted::kNothing}, 30000);
}

TEST_CASE("a responder that stages for its former life is caught by the check") {
  check_caught(Planted::kRestartStagesAgain, 1);
}

TEST_CASE("an acknowledgement before the deed is caught by the check") {
  check_caught(Planted::kCommittedBeforeApplied, 1);
}

TEST_CASE("a forgotten fence is caught by the check") { check_caught(Planted::kFenceForgotten, 0); }

TEST_CASE("a delta applied at every commit is caught by the check") {
  check_caught(Planted::kAppliesTwice, 0);
}

}  // namespace starling::gossip
