// A member that invents others, each with a key and a record that this key has signed.
#include <doctest/doctest.h>

#include <algorithm>

#include "gossip/membership.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint64_t kFirstInvented = 1000;

// Peer 1 tells the others, up to `peers`, of so many.
void invent(CoreBench& bench, std::uint64_t peers, std::uint64_t count) {
  for (std::uint64_t first = 0; first < count; first += kRecordsMax) {
    Records records;
    for (std::uint64_t i = first; i < std::min<std::uint64_t>(count, first + kRecordsMax); ++i) {
      REQUIRE(records.records.try_push(signed_record(bench, kFirstInvented + i)));
    }
    for (std::uint64_t to = 2; to <= peers; ++to) bench.deliver({PeerId{1}, PeerId{to}, records});
  }
  for (std::uint64_t id = 2; id <= peers; ++id) {
    REQUIRE(bench.core(id).stats().peers_alive >= peers - 1 + count / 2);
  }
}

bool has_buried(CoreBench& bench, std::uint64_t id, PeerId whom) {
  const auto& changed = bench.node(id).changed;
  return std::any_of(changed.begin(), changed.end(), [whom](const PeerChanged& event) {
    return event.record.key.id == whom && event.record.health == Health::kDead;
  });
}

bool tells(CoreBench& bench, std::uint64_t id, SwarmChange change) {
  const auto& told = bench.node(id).swarm_changes;
  return std::any_of(told.begin(), told.end(),
                     [change](const SwarmChanged& event) { return event.change == change; });
}

}  // namespace

TEST_CASE("the death of one that was met is noticed among hundreds that were invented") {
  CoreBench bench;
  bench.start_swarm(6);
  bench.run(seconds(30));
  invent(bench, 6, 640);
  bench.crash(6);
  bench.run(minutes(4));
  for (std::uint64_t id = 2; id <= 5; ++id) {
    CAPTURE(id);
    CHECK(has_buried(bench, id, PeerId{6}));
  }
}

TEST_CASE("the deaths of invented peers are no split") {
  for (const std::uint64_t count : {2, 40}) {
    CAPTURE(count);
    CoreBench bench;
    bench.start_swarm(6);
    bench.run(seconds(30));
    invent(bench, 6, count);
    bench.run(minutes(10));
    for (std::uint64_t id = 2; id <= 6; ++id) {
      CAPTURE(id);
      CHECK(has_buried(bench, id, PeerId{kFirstInvented}));
      CHECK(bench.node(id).swarm_changes.empty());
    }
  }
}

TEST_CASE("a split is told of, and its end, though many were invented who stay") {
  CoreBench bench;
  bench.start_swarm(12);
  bench.run(minutes(1));
  invent(bench, 12, 100);
  bench.passes = [](const CoreBench::Letter& letter) {
    return letter.from.value % 2 == letter.to.value % 2;
  };
  bench.run(minutes(3));
  for (std::uint64_t id = 2; id <= 12; ++id) {
    CAPTURE(id);
    CHECK(tells(bench, id, SwarmChange::kSplit));
  }
  pass_all(bench);
  bench.run(minutes(3));
  for (std::uint64_t id = 2; id <= 12; ++id) {
    CAPTURE(id);
    CHECK(tells(bench, id, SwarmChange::kHealed));
  }
}

}  // namespace starling::gossip
