#include "gossip/newcomer.h"

#include <doctest/doctest.h>

#include "gossip/membership.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

}  // namespace

TEST_CASE(
    "a newcomer is pulled without pulling at first, and its weight rises as it meets others") {
  CoreBench bench;
  bench.start_swarm(3);
  for (std::uint64_t id = 1; id <= 3; ++id) bench.core(id).on_progress(bench.now, 1000000, 0);
  bench.run(seconds(10));
  bench.start(4);
  bench.join(4, 1);
  bench.run(seconds(5));
  REQUIRE(bench.core(4).stats().peers_alive == 3);
  CHECK(bench.core(4).weight() == 0);
  CHECK(bench.core(1).weight() == 1);
  for (const float before : {0.0F, 0.0F, 0.25F, 0.5F, 0.75F}) {  // of each fragment
    CHECK(bench.core(4).weight() == before);
    bench.publish(4, 0);
    CHECK(bench.core(4).weight() == before);
    bench.publish(4, 1);
  }
  CHECK(bench.core(4).weight() == 1);
}

TEST_CASE("newcomers whose trained partners are gone for good count again, for each other") {
  CoreBench bench;
  bench.start_swarm(1);
  bench.core(1).on_progress(bench.now, 1000000, 0);
  bench.run(seconds(10));
  for (const std::uint64_t id : {2, 3}) {
    bench.start(id);
    bench.join(id, 1);
    bench.run(seconds(5));
    CHECK(bench.core(id).weight() == 0);
  }
  bench.run(2 * Membership::kOrphanedAfter);
  CHECK(bench.core(2).weight() == 0);  // while it is there
  bench.crash(1);
  bench.run(Membership::kOrphanedAfter - seconds(10));
  CHECK(bench.core(2).weight() == 0);  // it may come back
  bench.run(minutes(3));
  for (const std::uint64_t id : {2, 3}) CHECK(bench.core(id).weight() == 1);
}

TEST_CASE("a newcomer is one also where the first that it meets has trained little itself") {
  CoreBench bench;
  bench.start_swarm(3);
  for (std::uint64_t id = 1; id <= 3; ++id) bench.core(id).on_progress(bench.now, 1000000, 0);
  bench.run(seconds(10));
  bench.start(4);
  bench.join(4, 1);
  bench.core(4).on_progress(bench.now, 10000, 0);
  bench.run(minutes(2));  // until no record is news
  bench.passes = [](const CoreBench::Letter& letter) {
    const bool of_newcomer = letter.from == PeerId{5} || letter.to == PeerId{5};
    return !of_newcomer || letter.from == PeerId{4} || letter.to == PeerId{4};
  };
  bench.start(5);
  bench.join(5, 4);
  bench.run(seconds(5));
  CHECK(bench.core(5).weight() == 0);
}

}  // namespace starling::gossip
