#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "gossip/token_map.h"

namespace starling::gossip {
namespace {

using std::chrono::seconds;

const PeerKey kSelf{PeerId{1}, 4};
constexpr Instant kStart{};

TokenEntry entry(std::uint64_t id, std::uint64_t life, std::uint64_t tokens, float rate = 0) {
  return {{PeerId{id}, life}, tokens, rate};
}

std::vector<TokenEntry> random_entries(Rng& rng) {
  std::vector<TokenEntry> all;
  for (int i = 0; i < 40; ++i) {
    all.push_back(entry(2 + rng.below(6), 1 + rng.below(3), rng.below(1000)));
  }
  return all;
}

// Rates of equal counts depend on who was heard first; counts never do.
std::vector<std::pair<PeerKey, std::uint64_t>> counts(const TokenMap& map) {
  std::vector<std::pair<PeerKey, std::uint64_t>> all;
  for (const TokenEntry& item : map.entries()) all.emplace_back(item.key, item.tokens);
  return all;
}

void merge_all(TokenMap& map, const std::vector<TokenEntry>& entries) {
  for (const TokenEntry& item : entries) static_cast<void>(map.merge(kStart, item));
}

}  // namespace

TEST_CASE("merging token maps is idempotent, commutative and associative") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const auto left = random_entries(rng);
    const auto right = random_entries(rng);
    TokenMap one(kSelf, {}, kStart);
    merge_all(one, left);
    merge_all(one, right);
    TokenMap other(kSelf, {}, kStart);
    merge_all(other, right);
    merge_all(other, left);
    REQUIRE(counts(one) == counts(other));
    merge_all(one, left);
    REQUIRE(counts(one) == counts(other));
    TokenMap right_first(kSelf, {}, kStart);
    merge_all(right_first, right);
    TokenMap joined(kSelf, {}, kStart);
    merge_all(joined, left);
    merge_all(joined, right_first.entries());
    REQUIRE(counts(joined) == counts(one));
    REQUIRE(joined.known() == one.known());
  }
}

TEST_CASE("known tokens never shrink by merging") {
  Rng rng(9);
  TokenMap map(kSelf, {}, kStart);
  std::uint64_t known = 0;
  for (const TokenEntry& item : random_entries(rng)) {
    static_cast<void>(map.merge(kStart, item));
    REQUIRE(map.known() >= known);
    known = map.known();
  }
}

TEST_CASE("every life of a peer counts and nobody overrules our own count") {
  TokenMap map(kSelf, std::vector<TokenEntry>{entry(1, 3, 100), entry(2, 1, 7)}, kStart);
  map.set_own(kStart, 50, 10);
  CHECK_FALSE(map.merge(kStart, entry(1, 4, 9999)));
  CHECK(map.totals().at(PeerId{1}) == 150);
  CHECK(map.known() == 157);
  map.set_own(kStart, 40, 10);
  CHECK(map.known() == 157);
}

TEST_CASE("the silence of live peers is bridged by their rate for a minute at most") {
  TokenMap map(kSelf, {}, kStart);
  REQUIRE(map.merge(kStart, entry(2, 1, 1000, 10)));
  REQUIRE(map.merge(kStart, entry(3, 1, 1000, 10)));
  const auto live = [](const PeerKey& key) { return key.id == PeerId{2}; };
  CHECK(map.estimate(kStart + seconds(5), live) == doctest::Approx(2050));
  CHECK(map.estimate(kStart + seconds(600), live) == doctest::Approx(2600));
}

TEST_CASE("a rate that is no number counts as standing still") {
  TokenMap map(kSelf, {}, kStart);
  const float bad = std::numeric_limits<float>::quiet_NaN();
  REQUIRE(map.merge(kStart, entry(2, 1, 1000, bad)));
  REQUIRE(map.merge(kStart, entry(3, 1, 1000, -5)));
  CHECK(map.estimate(kStart + seconds(9), [](const PeerKey&) { return true; }) == 2000);
}

TEST_CASE("a message carries the own entry first, then news, then others") {
  Rng rng(3);
  TokenMap map(kSelf, {}, kStart);
  BoundedList<TokenEntry, kTokensMax> list;
  for (std::uint64_t id = 2; id < 102; ++id) REQUIRE(map.merge(kStart, entry(id, 1, 1)));
  for (int i = 0; i < 40; ++i) map.fill(list, rng);  // all news told
  REQUIRE(map.merge(kStart, entry(77, 1, 2)));
  map.fill(list, rng);
  CHECK(list.full());
  CHECK(list[0].key == kSelf);
  CHECK(list[1].key.id == PeerId{77});
}

TEST_CASE("a full token map refuses strangers and keeps counting acquaintances") {
  TokenMap map(kSelf, {}, kStart);
  for (std::uint64_t id = 2; id < TokenMap::kEntriesMax + 1; ++id) {
    REQUIRE(map.merge(kStart, entry(id, 1, 1)));
  }
  CHECK_FALSE(map.merge(kStart, entry(1000000, 1, 5)));
  CHECK(map.refused() == 1);
  CHECK(map.merge(kStart, entry(2, 1, 5)));
}

TEST_CASE("what others remember of our former lives is not in weights that were not restored") {
  TokenMap fresh(kSelf, {}, kStart);
  CHECK(fresh.merge(kStart, entry(1, 3, 500)));
  fresh.set_own(kStart, 20, 1);
  CHECK(fresh.totals().at(kSelf.id) == 520);
  CHECK(fresh.in_own_weights() == 20);

  TokenMap restored(kSelf, std::vector<TokenEntry>{entry(1, 3, 300), entry(2, 1, 7)}, kStart);
  CHECK(restored.merge(kStart, entry(1, 3, 500)));
  restored.set_own(kStart, 20, 1);
  CHECK(restored.in_own_weights() == 320);
}

TEST_CASE("what a process trained before it died is told beside any amount of news") {
  Rng rng(9);
  TokenMap map({PeerId{1}, 1}, {}, kStart);
  const PeerKey dead{PeerId{2}, 1};
  REQUIRE(map.merge(kStart, {dead, 5000, 0}));
  std::uint64_t told = 0;
  for (std::uint64_t tokens = 1; tokens <= 200; ++tokens) {
    for (std::uint64_t id = 10; id < 110; ++id) {
      static_cast<void>(map.merge(kStart, {{PeerId{id}, 1}, tokens, 1}));
    }
    BoundedList<TokenEntry, kTokensMax> list;
    map.fill(list, rng);
    const auto is_dead = [&dead](const TokenEntry& entry) { return entry.key == dead; };
    told += std::any_of(list.begin(), list.end(), is_dead) ? 1 : 0;
  }
  CHECK(told > 8);
}

}  // namespace starling::gossip
