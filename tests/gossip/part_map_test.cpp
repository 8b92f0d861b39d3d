#include "gossip/part_map.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace starling::gossip {
namespace {

constexpr std::uint16_t kParts = 20;

struct News {
  std::vector<PartPasses> passes;
  std::vector<PartClaim> claims;
};

News random_news(Rng& rng) {
  News news;
  for (int i = 0; i < 40; ++i) {
    news.passes.push_back(
        {static_cast<std::uint16_t>(rng.below(kParts)), static_cast<std::uint16_t>(rng.below(5))});
    PartClaim claim{{PeerId{1 + rng.below(6)}, 1 + rng.below(3)}, rng.below(4), {}};
    for (std::uint64_t held = rng.below(4); held > 0; --held) {
      REQUIRE(claim.parts.try_push(static_cast<std::uint16_t>(rng.below(kParts))));
    }
    news.claims.push_back(claim);
  }
  return news;
}

void merge_all(PartMap& map, const News& news) {
  for (const PartPasses& entry : news.passes) static_cast<void>(map.merge(entry));
  for (const PartClaim& claim : news.claims) static_cast<void>(map.merge(claim));
}

News contents(const PartMap& map) {
  News all;
  for (std::uint16_t part = 0; part < map.parts(); ++part) {
    all.passes.push_back({part, map.passes(part)});
  }
  map.each_claim([&](const PartClaim& claim) { all.claims.push_back(claim); });
  return all;
}

bool same(const PartMap& left, const PartMap& right) {
  const News one = contents(left);
  const News other = contents(right);
  return one.passes == other.passes && one.claims == other.claims;
}

PartClaim claim_of(std::uint64_t id, std::uint64_t life, std::uint64_t sequence,
                   std::uint16_t part) {
  PartClaim claim{{PeerId{id}, life}, sequence, {}};
  REQUIRE(claim.parts.try_push(part));
  return claim;
}

bool any(const PartClaim&) { return true; }

}  // namespace

TEST_CASE("merging part maps is idempotent, commutative and associative") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const News left = random_news(rng);
    const News right = random_news(rng);
    PartMap one(kParts, {});
    merge_all(one, left);
    merge_all(one, right);
    PartMap other(kParts, {});
    merge_all(other, right);
    merge_all(other, left);
    REQUIRE(same(one, other));
    merge_all(one, left);
    REQUIRE(same(one, other));
    PartMap right_first(kParts, {});
    merge_all(right_first, right);
    PartMap joined(kParts, {});
    merge_all(joined, left);
    merge_all(joined, contents(right_first));
    REQUIRE(same(joined, one));
  }
}

TEST_CASE("passes never shrink and what is no news is not told again") {
  PartMap map(3, std::vector<std::uint16_t>{1, 0, 4});
  CHECK(map.passes(2) == 4);
  CHECK_FALSE(map.merge(PartPasses{2, 4}));
  CHECK_FALSE(map.merge(PartPasses{2, 3}));
  CHECK(map.merge(PartPasses{2, 5}));
  map.finish(2, 2);
  CHECK(map.passes(2) == 7);
}

TEST_CASE("a newer claim of a process, or of a newer process, replaces the one before") {
  PartMap map(9, {});
  CHECK(map.merge(claim_of(1, 1, 5, 3)));
  CHECK_FALSE(map.merge(claim_of(1, 1, 4, 4)));
  CHECK_FALSE(map.merge(claim_of(1, 1, 5, 3)));
  CHECK(map.merge(claim_of(1, 2, 1, 6)));
  CHECK_FALSE(map.merge(claim_of(1, 1, 99, 7)));
  CHECK(contents(map).claims == std::vector<PartClaim>{claim_of(1, 2, 1, 6)});
}

TEST_CASE("claims that lapsed are forgotten, a few at every look") {
  PartMap map(9, {});
  for (std::uint64_t id = 1; id <= 10; ++id) REQUIRE(map.merge(claim_of(id, 1, 1, 3)));
  const auto is_odd = [](const PartClaim& claim) { return claim.holder.id.value % 2 == 1; };
  map.forget_some(4, is_odd);
  CHECK(map.claims() == 8);
  Rng rng(1);
  BoundedList<PartClaim, kPartClaimsMax> list;
  map.fill(list, PeerId{2}, rng, any);
  CHECK(list.size() == 8);
  map.forget_some(6, is_odd);
  CHECK(map.claims() == 5);
  map.forget_some(1000, [](const PartClaim&) { return true; });
  CHECK(map.claims() == 0);
  map.forget_some(1000, is_odd);
  map.fill(list, PeerId{2}, rng, any);
  CHECK(list.empty());
  CHECK(map.merge(claim_of(1, 1, 1, 3)));
}

TEST_CASE("a message costs the same at any number of claims, and each is told in its turn") {
  Rng rng(7);
  PartMap map(100, {});
  for (std::uint64_t id = 1; id <= 2000; ++id) REQUIRE(map.merge(claim_of(id, 1, 1, 5)));
  BoundedList<PartClaim, kPartClaimsMax> list;
  std::size_t looks = 0;
  std::vector<int> told(2001);
  for (int message = 0; message < 2000; ++message) {
    map.fill(list, PeerId{}, rng, [&looks](const PartClaim&) { return ++looks > 0; });
    for (const PartClaim& claim : list) ++told[claim.holder.id.value];
    if (message == 502) {  // all news was told by now, and each piece the same number of times
      for (std::size_t id = 1; id <= 2000; ++id) REQUIRE(told[id] >= 6);
    }
  }
  CHECK(looks == 2000 * kPartClaimsMax);
  looks = 0;
  map.fill(list, PeerId{}, rng, [&looks](const PartClaim&) { return ++looks == 0; });
  CHECK(list.empty());
  CHECK(looks == 4 * kPartClaimsMax);
}

TEST_CASE("what names an unknown part is refused as a whole") {
  PartMap map(9, {});
  CHECK_FALSE(map.merge(PartPasses{9, 1}));
  PartClaim claim = claim_of(1, 1, 1, 2);
  REQUIRE(claim.parts.try_push(9));
  CHECK_FALSE(map.merge(claim));
  CHECK(map.claims() == 0);
}

TEST_CASE("counts end where they can be counted no further") {
  PartMap map(1, std::vector<std::uint16_t>{65'534});
  map.finish(0, 65'535);
  CHECK(map.passes(0) == 65'535);
  map.finish(0, 1);
  CHECK(map.passes(0) == 65'535);
}

TEST_CASE("news of passes goes first, then one part after the other until all were told") {
  PartMap map(1000, std::vector<std::uint16_t>(1000, 1));
  BoundedList<PartPasses, kPartPassesMax> list;
  std::vector<int> told(1000);
  for (int message = 0; message < 6; ++message) {
    map.fill(list);
    CHECK(list.full());
    for (const PartPasses& entry : list) ++told[entry.part];
  }
  for (const int times : told) CHECK(times >= 1);
  REQUIRE(map.merge(PartPasses{777, 2}));
  map.fill(list);
  CHECK(list[0] == PartPasses{777, 2});
  CHECK(list.full());
}

TEST_CASE("where there is always more news than room the last part is told like the first") {
  constexpr std::uint16_t kMany = 1000;
  PartMap map(kMany, {});
  BoundedList<PartPasses, kPartPassesMax> list;
  std::vector<int> told(kMany);
  for (std::uint16_t message = 1; message <= 60; ++message) {
    for (std::uint16_t part = 0; part < kMany; ++part) {
      REQUIRE(map.merge(PartPasses{part, message}));
    }
    map.fill(list);
    REQUIRE(list.full());
    for (const PartPasses& entry : list) ++told[entry.part];
  }
  const auto [least, most] = std::minmax_element(told.begin(), told.end());
  CHECK(*least >= 60 * static_cast<int>(kPartPassesMax) / kMany);
  CHECK(*most - *least <= 1);
}

TEST_CASE("a part that nobody has read is not spoken of") {
  PartMap map(10, {});
  map.finish(4, 1);
  BoundedList<PartPasses, kPartPassesMax> list;
  for (int message = 0; message < 20; ++message) {
    map.fill(list);
    CHECK(!list.empty());
    for (const PartPasses& entry : list) CHECK(entry == PartPasses{4, 1});
  }
  PartMap empty(0, {});
  empty.fill(list);
  CHECK(list.empty());
}

TEST_CASE("a message carries the own claim first, then news, and only claims that hold") {
  Rng rng(4);
  PartMap map(100, {});
  for (std::uint64_t id = 1; id <= 60; ++id) REQUIRE(map.merge(claim_of(id, 1, 1, 5)));
  BoundedList<PartClaim, kPartClaimsMax> list;
  for (int message = 0; message < 30; ++message) map.fill(list, PeerId{9}, rng, any);
  REQUIRE(map.merge(claim_of(33, 1, 2, 8)));
  map.fill(list, PeerId{9}, rng, any);
  CHECK(list.full());
  CHECK(list[0].holder.id == PeerId{9});
  CHECK(list[1].holder.id == PeerId{33});
  map.fill(list, PeerId{9}, rng, [](const PartClaim& claim) { return claim.holder.id.value < 9; });
  CHECK(list.size() == 9);
}

TEST_CASE("a full map refuses claims of strangers and follows those it has") {
  PartMap map(1, {});
  for (std::uint64_t id = 1; id <= PartMap::kClaimsMax; ++id) {
    REQUIRE(map.merge(claim_of(id, 1, 1, 0)));
  }
  CHECK_FALSE(map.merge(claim_of(1'000'000, 1, 1, 0)));
  CHECK(map.merge(claim_of(1, 1, 2, 0)));
}

}  // namespace starling::gossip
