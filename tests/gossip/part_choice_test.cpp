#include "gossip/part_choice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

namespace starling::gossip {
namespace {

std::uint16_t read_next(PartChoice& choice) {
  const std::uint16_t part = choice.next();
  choice.finish(part);
  return part;
}

}  // namespace

TEST_CASE(
    "without news everything is read once before anything twice, in another order each pass") {
  PartChoice choice(50, {.seed = 1, .stream = 2});
  std::vector<std::vector<std::uint16_t>> orders;
  for (std::uint32_t pass = 0; pass < 3; ++pass) {
    std::vector<std::uint16_t> order;
    for (int i = 0; i < 50; ++i) order.push_back(read_next(choice));
    CHECK(std::set(order.begin(), order.end()).size() == 50);
    CHECK(std::find(orders.begin(), orders.end(), order) == orders.end());
    orders.push_back(order);
  }
  CHECK(choice.never() == 0);
  CHECK(choice.more() == 50);
}

TEST_CASE("a part that others read now comes after those that nobody reads") {
  PartChoice choice(4, {.seed = 1, .stream = 2});
  for (std::uint16_t part = 0; part < 3; ++part) choice.learn(part, {.passes = 0, .claims = 1});
  CHECK(choice.next() == 3);
  choice.learn(3, {.passes = 2});
  CHECK(choice.next() != 3);  // one claim weighs less than two passes
  for (std::uint16_t part = 0; part < 3; ++part) choice.learn(part, {.passes = 0, .claims = 200});
  choice.learn(3, {.passes = 3});
  CHECK(choice.next() != 3);  // however many
}

TEST_CASE("among equals a peer prefers its own, then what it has read least itself") {
  PartChoice choice(6, {.seed = 1, .stream = 2});
  for (std::uint16_t part = 0; part < 6; ++part) choice.learn(part, {.ours = part == 4});
  CHECK(choice.next() == 4);
  choice.finish(4);
  for (std::uint16_t part = 0; part < 6; ++part) choice.learn(part, {.passes = 1});
  std::set<std::uint16_t> next;
  for (int i = 0; i < 5; ++i) next.insert(read_next(choice));
  CHECK(next.count(4) == 0);
}

TEST_CASE("news never takes away what this peer knows") {
  PartChoice choice(3, {.seed = 1, .stream = 2});
  choice.finish(1);
  choice.learn(1, {.passes = 0});
  CHECK(choice.passes(1) == 1);
  CHECK(choice.once() == 1);
  choice.learn(1, {.passes = 7});
  CHECK(choice.passes(1) == 7);
  CHECK(choice.more() == 1);
  CHECK(choice.never() == 2);
}

TEST_CASE("a choice goes on from what it knew") {
  PartChoice whole(40, {.seed = 1, .stream = 2});
  whole.learn(7, {.passes = 1});
  for (int i = 0; i < 30; ++i) read_next(whole);
  PartChoice second(40, {.seed = 1, .stream = 2});
  std::vector<std::uint16_t> passes;
  for (std::uint16_t part = 0; part < 40; ++part) passes.push_back(whole.passes(part));
  second.restore(passes, whole.own_passes());
  CHECK(second.never() == whole.never());
  for (int i = 0; i < 60; ++i) CHECK(read_next(second) == read_next(whole));
}

TEST_CASE("a part said to be read impossibly often is read once in every pass by whose own it is") {
  constexpr std::uint16_t kEnd = std::numeric_limits<std::uint16_t>::max();
  for (const std::uint16_t lie :
       std::vector<std::uint16_t>{PartChoice::kAheadMax + 1, 1000, kEnd}) {
    CAPTURE(lie);
    PartChoice choice(20, {.seed = 1, .stream = 2});
    for (std::uint16_t part = 0; part < 10; ++part) choice.learn(part, {.passes = lie});
    choice.learn(3, {.passes = lie, .ours = false});
    std::vector<int> read(20);
    for (int i = 0; i < 2 * 19; ++i) ++read[read_next(choice)];
    for (std::uint16_t part = 0; part < 20; ++part) CHECK(read[part] == (part == 3 ? 0 : 2));
  }
  PartChoice all(20, {.seed = 1, .stream = 2});
  for (std::uint16_t part = 0; part < 20; ++part) all.learn(part, {.passes = kEnd});
  std::vector<int> read(20);
  for (int i = 0; i < 40; ++i) ++read[read_next(all)];
  for (const int times : read) CHECK(times == 2);
}

}  // namespace starling::gossip
