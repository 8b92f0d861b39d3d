#include "gossip/part_gossip.h"

#include <algorithm>
#include <set>

#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::seconds;

constexpr std::uint16_t kParts = 300;

CoreBench reading_bench() {
  CoreBench bench;
  bench.data = {77, kParts};
  return bench;
}

void hold(CoreBench& bench, std::uint64_t id, const std::vector<std::uint16_t>& parts) {
  bench.core(id).on_parts_held(bench.now, parts);
}

int claims(CoreBench& bench, std::uint64_t id, std::uint16_t part) {
  return bench.core(id).parts().at(part).claims;
}

int passes(CoreBench& bench, std::uint64_t id, std::uint16_t part) {
  return bench.core(id).parts().at(part).passes;
}

// What peer `from` tells `to` although nothing makes it.
void say(CoreBench& bench, std::uint64_t from, std::uint64_t to, const Parts& message) {
  bench.deliver({PeerId{from}, PeerId{to}, message});
}

}  // namespace

TEST_CASE("everybody hears who has read and who reads what, also one who comes late") {
  CoreBench bench = reading_bench();
  bench.start_swarm(8);
  for (std::uint64_t id = 1; id <= 8; ++id) {
    hold(bench, id, {static_cast<std::uint16_t>(id), 100});
    bench.core(id).on_part_finished(bench.now, static_cast<std::uint16_t>(200 + id), 1);
  }
  bench.run(seconds(15));
  bench.start(9);
  bench.join(9, 1);
  bench.run(seconds(15));
  for (std::uint64_t id = 1; id <= 9; ++id) {
    CAPTURE(id);
    CHECK(claims(bench, id, 100) == (id == 9 ? 8 : 7));
    for (std::uint64_t other = 1; other <= 8; ++other) {
      CHECK(claims(bench, id, static_cast<std::uint16_t>(other)) == (id == other ? 0 : 1));
      CHECK(passes(bench, id, static_cast<std::uint16_t>(200 + other)) == 1);
    }
  }
}

TEST_CASE("every part is the own one of exactly one reader") {
  CoreBench bench = reading_bench();
  bench.start_swarm(5);
  for (std::uint64_t id = 1; id <= 5; ++id) hold(bench, id, {1});
  bench.run(seconds(20));
  std::vector<int> owners(kParts);
  for (std::uint64_t id = 1; id <= 5; ++id) {
    const auto views = bench.core(id).parts();
    const auto own = std::count_if(views.begin(), views.end(), [](auto& v) { return v.ours; });
    CHECK(own > kParts / 10);
    for (std::size_t part = 0; part < kParts; ++part) owners[part] += views[part].ours ? 1 : 0;
  }
  for (const int count : owners) CHECK(count == 1);
}

TEST_CASE("a peer alone is told nothing but what it has said itself") {
  CoreBench bench = reading_bench();
  bench.start(1);
  hold(bench, 1, {1, 2});
  bench.run(seconds(10));
  CHECK(bench.core(1).parts() == std::vector<PartView>(kParts));
  bench.core(1).on_part_finished(bench.now, 2, 1);
  CHECK(bench.core(1).parts()[2] == PartView{.passes = 1, .claims = 0});
}

TEST_CASE("the claim of a dead, departed or restarted peer lapses, what it finished stays") {
  CoreBench bench = reading_bench();
  bench.start_swarm(5);
  for (std::uint64_t id = 3; id <= 5; ++id) {
    hold(bench, id, {static_cast<std::uint16_t>(id)});
    bench.core(id).on_part_finished(bench.now, 50, 1);
  }
  bench.run(seconds(15));
  REQUIRE(claims(bench, 1, 3) + claims(bench, 1, 4) + claims(bench, 1, 5) == 3);
  bench.crash(3);
  bench.core(4).on_leave(bench.now);
  bench.settle();
  bench.crash(5);
  bench.start(5, 2);
  bench.join(5, 1);
  CHECK(claims(bench, 1, 4) == 0);  // at once
  CHECK(claims(bench, 1, 5) == 0);  // with the first word of the new process
  bench.run(seconds(40));
  for (const std::uint64_t id : {1, 2, 5}) {
    CAPTURE(id);
    for (const std::uint16_t part : std::vector<std::uint16_t>{3, 4, 5}) {
      CHECK(claims(bench, id, part) == 0);
    }
    CHECK(passes(bench, id, 50) >= 1);
  }
}

TEST_CASE("peers with other data do not disturb each other and soon leave each other alone") {
  CoreBench bench = reading_bench();
  int across = 0;
  bench.passes = [&](const CoreBench::Letter& letter) {
    across += is<Parts>(letter.message) && letter.from.value % 2 != letter.to.value % 2 ? 1 : 0;
    return true;
  };
  for (std::uint64_t id = 1; id <= 6; ++id) {
    bench.data = {id % 2 == 0 ? 10U : 11U, id % 2 == 0 ? kParts : std::uint16_t{40}};
    bench.start(id);
  }
  for (std::uint64_t id = 2; id <= 6; ++id) bench.join(id, 1);
  for (std::uint64_t id = 1; id <= 6; ++id) {
    hold(bench, id, {static_cast<std::uint16_t>(id)});
    bench.core(id).on_part_finished(bench.now, 30, 1);
  }
  bench.run(seconds(60));
  CHECK(claims(bench, 2, 4) + claims(bench, 2, 6) == 2);
  CHECK(claims(bench, 2, 1) + claims(bench, 2, 3) + claims(bench, 2, 5) == 0);
  CHECK(claims(bench, 1, 3) + claims(bench, 1, 5) == 2);
  CHECK(across <= 6 * 3);
  across = 0;
  bench.run(seconds(60));
  CHECK(across == 0);
}

TEST_CASE("a peer without data says nothing of it and hears nothing") {
  CoreBench bench = reading_bench();
  bench.data = {};
  bench.start(1);
  bench.data = {77, kParts};
  bench.start(2);
  bench.join(2, 1);
  hold(bench, 2, {5});
  bench.run(seconds(10));
  CHECK(bench.core(1).parts().empty());
}

TEST_CASE("entries that cannot be are refused and counted") {
  CoreBench bench = reading_bench();
  bench.start_swarm(3);
  hold(bench, 1, {7});
  Parts lie;
  lie.space = 77;
  REQUIRE(lie.passes.try_push({kParts, 3}));                              // no such part
  REQUIRE(lie.passes.try_push({65'535, 65'535}));                         // likewise
  REQUIRE(lie.claims.try_push({{PeerId{99}, 1}, 5, {}}));                 // no such member
  REQUIRE(lie.claims.try_push({{PeerId{3}, 0}, 5, {}}));                  // a former life
  REQUIRE(lie.claims.try_push({{PeerId{1}, 1}, ~std::uint64_t{0}, {}}));  // about the reader
  PartClaim unknown{{PeerId{3}, 1}, 5, {}};
  REQUIRE(unknown.parts.try_push(kParts));
  REQUIRE(lie.claims.try_push(unknown));
  const auto before = bench.core(1).parts();
  for (int i = 0; i < 100; ++i) say(bench, 2, 1, lie);
  CHECK(bench.core(1).parts() == before);
  CHECK(bench.core(1).stats().part_entries_refused == 100 * 5);
  hold(bench, 1, {8});
  bench.run(seconds(5));
  CHECK(claims(bench, 3, 8) == 1);  // the own claim was not overruled
}

TEST_CASE("a claim in a member's name lasts no longer than its process, whatever it says") {
  CoreBench bench = reading_bench();
  bench.start_swarm(3);
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  for (const std::uint64_t process : {std::uint64_t{1}, std::uint64_t{2}, kMost}) {
    Parts lie;
    lie.space = 77;
    PartClaim claim{{PeerId{3}, process}, kMost, {}};
    REQUIRE(claim.parts.try_push(5));
    REQUIRE(lie.claims.try_push(claim));
    say(bench, 2, 1, lie);
  }
  CHECK(claims(bench, 1, 5) == 1);
  bench.crash(3);
  bench.start(3, 2);
  bench.join(3, 1);
  hold(bench, 3, {8});
  bench.run(seconds(5));
  CHECK(claims(bench, 1, 5) == 0);
  CHECK(claims(bench, 1, 8) == 1);
}

TEST_CASE("claims made in the name of many who are no members fill no memory") {
  CoreBench bench = reading_bench();
  bench.start_swarm(2);
  for (std::uint64_t id = 1000; id < 3000; id += kPartClaimsMax) {
    Parts lie;
    lie.space = 77;
    for (std::uint64_t i = 0; i < kPartClaimsMax; ++i) {
      PartClaim claim{{PeerId{id + i}, 1}, 1, {}};
      REQUIRE(claim.parts.try_push(5));
      REQUIRE(lie.claims.try_push(claim));
    }
    say(bench, 2, 1, lie);
  }
  CHECK(claims(bench, 1, 5) == 0);
}

}  // namespace starling::gossip
