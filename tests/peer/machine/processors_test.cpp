#include "peer/machine/processors.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/this_thread.h"

namespace starling::peer {
namespace {

using List = std::vector<int>;

// Four cores with two threads each, numbered as most systems do.
ProcessorFacts hyper_threads() {
  ProcessorFacts facts;
  for (int i = 0; i < 8; ++i) {
    facts.allowed.push_back(i);
    facts.siblings.push_back({i % 4, i % 4 + 4});
  }
  return facts;
}

TEST_CASE("lists of processors are read, and strange ones are none") {
  CHECK(parse_processors("0") == List{0});
  CHECK(parse_processors("0,4") == List{0, 4});
  CHECK(parse_processors("0-2,8-9") == List{0, 1, 2, 8, 9});
  for (const char* bad : {"", "x", "1,", ",1", "1-", "-1", "3-1", "1;2", "0-99999999", "1 2",
                          "99999999999999999999", "0-65535,0-65535"}) {
    CAPTURE(bad);
    CHECK(parse_processors(bad).empty());
  }
}

TEST_CASE("the team has cores before their hyper-threads, and the others have the rest") {
  const auto plan = [](std::uint32_t threads) {
    return plan_processors(hyper_threads(), {.threads = threads, .pin = true}).value();
  };
  CHECK(plan(3).team == List{0, 1, 2});
  CHECK(plan(3).rest == List{3, 4, 5, 6, 7});
  CHECK(plan(6).team == List{0, 1, 2, 3, 4, 5});
  CHECK(plan(0).threads == 7);
  CHECK(plan(0).rest == List{7});
  CHECK(plan(8).team.size() == 8);
  CHECK(plan(8).rest.empty());
}

TEST_CASE("only what is allowed is planned with") {
  ProcessorFacts facts{.allowed = {2, 3, 6}, .siblings = {{2, 6}, {3, 7}, {2, 6}}, .taken = {}};
  auto plan = plan_processors(facts, {.threads = 2, .pin = true});
  CHECK(plan.value().team == List{2, 3});
  CHECK(plan.value().rest == List{6});
  facts.siblings = {{}, {}, {}};  // the system does not tell
  plan = plan_processors(facts, {.threads = 2, .pin = true});
  CHECK(plan.value().team == List{2, 3});
}

TEST_CASE("a team takes what others have left, and is not pinned where that is too little") {
  ProcessorFacts facts = hyper_threads();
  facts.taken = {0, 1, 5};
  const auto plan = [&](std::uint32_t threads) {
    return plan_processors(facts, {.threads = threads, .pin = true}).value();
  };
  CHECK(plan(2).team == List{2, 3});
  CHECK(plan(2).rest == List{4, 6, 7});
  CHECK(plan(5).team == List{2, 3, 4, 6, 7});
  CHECK(plan(6).team.empty());
  CHECK(plan(6).rest.empty());
  CHECK(plan(6).threads == 6);
  CHECK(plan(0).team == List{2, 3, 4, 6, 7});
  CHECK(plan(0).threads == 5);
  facts.taken = facts.allowed;
  CHECK(plan(0).team.empty());
  CHECK(plan(0).threads == 7);
}

TEST_CASE("more pinned threads than processors are refused with what would do") {
  const ProcessorFacts facts{.allowed = {0, 1}, .siblings = {}, .taken = {}};
  auto plan = plan_processors(facts, {.threads = 3, .pin = true});
  REQUIRE(!plan.ok());
  CHECK(plan.error().message() ==
        "device.threads = 3, but this process may use 2 processors, and more threads than that "
        "only slow it: set it to 2 at most, or device.pin = false");
  plan = plan_processors(facts, {.threads = 3, .pin = false});
  CHECK(plan.value().threads == 3);
  CHECK(plan.value().team.empty());
  CHECK(plan.value().rest.empty());
  // Nothing is pinned where the system does not tell its processors.
  plan = plan_processors({}, {.threads = 3, .pin = true});
  CHECK(plan.value().threads == 3);
  CHECK(plan.value().team.empty());
}

TEST_CASE("two processors are both the trainer's unless it wants one") {
  const ProcessorFacts facts{.allowed = {4, 5}, .siblings = {}, .taken = {}};
  CHECK(plan_processors(facts, {.threads = 0, .pin = true}).value().team == List{4, 5});
  CHECK(plan_processors(facts, {.threads = 1, .pin = true}).value().rest == List{5});
  CHECK(default_threads({.allowed = {0}, .siblings = {}, .taken = {}}) == 1);
  CHECK(default_threads({}) == 1);
}

TEST_CASE("a container's quota bounds the threads of a team, and nothing that is no quota does") {
  CHECK(parse_quota("200000 100000") == 2.0);
  CHECK(parse_quota("50000 100000") == 0.5);
  for (const char* none : {"", "max 100000", "200000", "200000 ", "200000 0", "0 100000", "x y",
                           "-1 100000", "99999999999999999999 1"}) {
    CAPTURE(none);
    CHECK(!parse_quota(none));
  }
  ProcessorFacts facts = hyper_threads();
  facts.quota = 3.5;
  CHECK(usable_processors(facts) == 4);
  CHECK(default_threads(facts) == 3);
  facts.quota = 0.5;
  CHECK(default_threads(facts) == 1);
  facts.quota = 64;
  CHECK(default_threads(facts) == 7);
  // Whoever asks for more gets it.
  facts.quota = 2;
  CHECK(plan_processors(facts, {.threads = 5, .pin = true}).value().team.size() == 5);
}

TEST_CASE("processes get ranges of their own, and whole cores where there are enough") {
  CHECK(divide_processors(hyper_threads(), 2) == std::vector<List>{{0, 4, 1, 5}, {2, 6, 3, 7}});
  CHECK(divide_processors(hyper_threads(), 3) == std::vector<List>{{0, 4}, {1, 5, 2}, {6, 3, 7}});
  CHECK(divide_processors(hyper_threads(), 8).back() == List{7});
  CHECK(divide_processors(hyper_threads(), 9).empty());
  CHECK(divide_processors({}, 1).empty());
}

TEST_CASE("the facts of this machine name the processors of this process") {
  const ProcessorFacts facts = processor_facts();
  CHECK(facts.allowed == allowed_processors());
  CHECK(facts.siblings.size() == facts.allowed.size());
  auto plan = plan_processors(facts, {.threads = 0, .pin = true});
  REQUIRE(plan.ok());
  CHECK(plan.value().team.size() == static_cast<std::size_t>(plan.value().threads));
}

}  // namespace
}  // namespace starling::peer
