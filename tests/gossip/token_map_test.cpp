#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/gossip/signed_tokens.h"

namespace starling::gossip {
namespace {

using std::chrono::seconds;

using Heard = TokenMap::Heard;

const PeerKey kSelf{PeerId{1}, 4};
constexpr Instant kStart{};

TokenEntry entry(std::uint64_t id, std::uint64_t life, std::uint64_t tokens, float rate = 0) {
  return signed_entry({PeerId{id}, life}, tokens, rate);
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

std::uint64_t sum(const TokenMap& map) {
  std::uint64_t sum = 0;
  for (const auto& [id, tokens] : map.totals()) sum += tokens;
  return sum;
}

}  // namespace

TEST_CASE("merging token maps is idempotent, commutative and associative") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const auto left = random_entries(rng);
    const auto right = random_entries(rng);
    TokenMap one = map_of(kSelf);
    merge_all(one, left);
    merge_all(one, right);
    TokenMap other = map_of(kSelf);
    merge_all(other, right);
    merge_all(other, left);
    REQUIRE(counts(one) == counts(other));
    merge_all(one, left);
    REQUIRE(counts(one) == counts(other));
    TokenMap right_first = map_of(kSelf);
    merge_all(right_first, right);
    TokenMap joined = map_of(kSelf);
    merge_all(joined, left);
    merge_all(joined, right_first.entries());
    REQUIRE(counts(joined) == counts(one));
    REQUIRE(sum(joined) == sum(one));
  }
}

TEST_CASE("known tokens never shrink by merging") {
  Rng rng(9);
  TokenMap map = map_of(kSelf);
  std::uint64_t known = 0;
  for (const TokenEntry& item : random_entries(rng)) {
    static_cast<void>(map.merge(kStart, item));
    REQUIRE(sum(map) >= known);
    known = sum(map);
  }
}

TEST_CASE("every life of a peer counts and nobody overrules our own count") {
  TokenMap map = map_of(kSelf, std::vector<TokenEntry>{entry(1, 3, 100), entry(2, 1, 7)});
  map.set_own(kStart, 50, 10);
  CHECK(map.merge(kStart, entry(1, 4, 9999)) == Heard::kNothingNew);
  CHECK(map.totals().at(PeerId{1}) == 150);
  CHECK(estimate(map) == 157);
  map.set_own(kStart, 40, 10);
  CHECK(estimate(map) == 157);
}

TEST_CASE("the silence of live peers is bridged by their rate for five minutes at most") {
  TokenMap map = map_of(kSelf);
  REQUIRE(map.merge(kStart, entry(2, 1, 1000, 10)) == Heard::kNews);
  REQUIRE(map.merge(kStart, entry(3, 1, 1000, 10)) == Heard::kNews);
  const auto live = [](const PeerKey& key) { return key.id == PeerId{2}; };
  CHECK(estimate(map, kStart + seconds(5), live) == doctest::Approx(2050));
  CHECK(estimate(map, kStart + seconds(600), live) == doctest::Approx(5000));
}

TEST_CASE("a count that was old when it was heard is bridged from when it was signed") {
  const auto live = [](const PeerKey&) { return true; };
  TokenEntry old = entry(2, 1, 1000, 10);
  old.age_s = 40;
  TokenMap map = map_of(kSelf);
  REQUIRE(map.merge(kStart, old) == Heard::kNews);
  CHECK(estimate(map, kStart, live) == doctest::Approx(1400));
  CHECK(estimate(map, kStart + seconds(260), live) == doctest::Approx(4000));
  CHECK(estimate(map, kStart + seconds(600), live) == doctest::Approx(4000));
  TokenEntry lie = entry(2, 1, 1001, 10);
  lie.age_s = 65535;  // whoever passes it on can say what it likes
  REQUIRE(map.merge(kStart, lie) == Heard::kNews);
  CHECK(estimate(map, kStart, live) == doctest::Approx(4001));
}

TEST_CASE("an age is that of the count, through any hands and though its peer trains no more") {
  Rng rng(2);
  BoundedList<TokenEntry, kTokensMax> list;
  const auto told = [&](TokenMap& map, Instant now, PeerId whose) {
    map.fill(now, list, rng);
    for (const TokenEntry& item : list) {
      if (item.key.id == whose) return item;
    }
    FAIL("not told");
    return TokenEntry{};
  };
  TokenMap subject = map_of(PeerKey{PeerId{2}, 1});
  subject.set_own(kStart, 1000, 10);
  CHECK(told(subject, kStart, PeerId{2}).age_s == 0);
  const TokenEntry later = told(subject, kStart + seconds(5), PeerId{2});
  CHECK(later.age_s == 5);
  TokenMap second = map_of(kSelf);
  REQUIRE(second.merge(kStart + seconds(5), later) == Heard::kNews);
  const TokenEntry through = told(second, kStart + seconds(12), PeerId{2});
  CHECK(through.age_s == 12);
  TokenMap third = map_of(PeerKey{PeerId{3}, 1});
  REQUIRE(third.merge(kStart + seconds(12), through) == Heard::kNews);
  const auto live = [](const PeerKey&) { return true; };
  CHECK(estimate(third, kStart + seconds(12), live) == doctest::Approx(1120));
  CHECK(told(third, kStart + std::chrono::hours(30), PeerId{2}).age_s == 65535);
}

TEST_CASE("an own rate that is no number counts as standing still") {
  TokenMap map = map_of(kSelf);
  const auto live = [](const PeerKey&) { return true; };
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -5.0F}) {
    map.set_own(kStart, 1000, bad);
    CHECK(estimate(map, kStart + seconds(9), live) == 1000);
    CHECK(map_of(PeerKey{PeerId{2}, 1}).merge(kStart, map.entries()[0]) == Heard::kNews);
  }
}

TEST_CASE("only what its subject has signed, for this run and to the last bit, is believed") {
  const TokenEntry sound = entry(2, 1, 1000, 10);
  std::vector<TokenEntry> forged(7, sound);
  forged[0].tokens += 1;
  forged[1].rate = 11;
  forged[2].key.incarnation += 1;
  forged[3].key.id = PeerId{3};
  forged[4].owner = stand_in_key(PeerId{3});
  forged[5].signature[0] ^= 1;
  forged[6] = signed_entry(sound.key, 1000, 10, kTestRun + 1);
  TokenMap map = map_of(kSelf);
  for (const TokenEntry& item : forged) CHECK(map.merge(kStart, item) == Heard::kForged);
  CHECK(map.entries().size() == 1);
  CHECK(map_of(kSelf, forged).entries().size() == 1);
  REQUIRE(map.merge(kStart, sound) == Heard::kNews);
  CHECK(map.merge(kStart, sound) == Heard::kNothingNew);
}

TEST_CASE("numbers that no peer signs are not believed of anybody") {
  TokenMap map = map_of(kSelf);
  CHECK(map.merge(kStart, entry(2, 1, kTokensOfProcessMax + 1)) == Heard::kForged);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -5.0F, 1e13F,
                          std::numeric_limits<float>::infinity()}) {
    CHECK(map.merge(kStart, entry(2, 1, 5, bad)) == Heard::kForged);
  }
}

TEST_CASE(
    "what is told and saved can be shown to others, and the own count is signed once a second") {
  TokenMap map = map_of(kSelf);
  REQUIRE(map.merge(kStart, entry(2, 1, 70, 1)) == Heard::kNews);
  BoundedList<TokenEntry, kTokensMax> list;
  Rng rng(1);
  const auto told_at = [&](Instant now, std::uint64_t tokens) {
    map.set_own(now, tokens, 3);
    map.fill(now, list, rng);
    TokenMap other = map_of(PeerKey{PeerId{2}, 9});
    for (const TokenEntry& item : list) CHECK(other.merge(now, item) == Heard::kNews);
    return list[0].tokens;
  };
  CHECK(told_at(kStart, 100) == 100);
  CHECK(told_at(kStart + seconds(1) / 2, 200) == 100);
  CHECK(told_at(kStart + seconds(1), 300) == 300);
  map.set_own(kStart + seconds(1), 333, 3);
  const TokenMap restored = map_of(PeerKey{kSelf.id, kSelf.incarnation + 1}, map.entries());
  CHECK(restored.in_own_weights() == 333);
  CHECK(estimate(restored) == 403);
}

TEST_CASE("a message carries the own entry first, then news, then others") {
  Rng rng(3);
  TokenMap map = map_of(kSelf);
  BoundedList<TokenEntry, kTokensMax> list;
  map.set_own(kStart, 1, 1);
  for (std::uint64_t id = 2; id < 102; ++id)
    REQUIRE(map.merge(kStart, entry(id, 1, 1)) == Heard::kNews);
  for (int i = 0; i < 220; ++i) map.fill(kStart, list, rng);  // all news told
  REQUIRE(map.merge(kStart, entry(77, 1, 2)) == Heard::kNews);
  map.fill(kStart, list, rng);
  CHECK(list.full());
  CHECK(list[0].key == kSelf);
  CHECK(list[1].key.id == PeerId{77});
}

TEST_CASE("a full token map refuses strangers and keeps counting acquaintances") {
  TokenMap map = map_of(kSelf);
  for (std::uint64_t id = 2; id < TokenMap::kEntriesMax + 1; ++id) {
    REQUIRE(map.merge(kStart, entry(id, 1, 1)) == Heard::kNews);
  }
  CHECK(map.merge(kStart, entry(1000000, 1, 5)) == Heard::kNothingNew);
  CHECK(map.entries().size() == TokenMap::kEntriesMax);
  CHECK(map.merge(kStart, entry(2, 1, 5)) == Heard::kNews);
}

TEST_CASE("a process that has trained nothing is neither told of nor kept") {
  Rng rng(1);
  TokenMap map = map_of(kSelf);
  BoundedList<TokenEntry, kTokensMax> list;
  map.fill(kStart, list, rng);
  CHECK(list.empty());
  CHECK(map.merge(kStart, entry(2, 1, 0, 10)) == Heard::kNothingNew);
  CHECK(map.entries().size() == 1);
  map.set_own(kStart, 1, 1);
  map.fill(kStart, list, rng);
  CHECK(list.size() == 1);
}

TEST_CASE(
    "in a full map the dead with the fewest tokens makes room for who lives, and only for it") {
  const auto lives = [](const PeerKey& key) { return key.id == PeerId{2} || key.id > PeerId{9}; };
  std::vector<TokenEntry> known{entry(2, 1, 1), entry(3, 1, 50), entry(4, 1, 40), entry(5, 1, 40)};
  for (int order = 0; order < 24; ++order) {
    TokenMap map = map_of(kSelf, {}, known.size() + 1);
    merge_all(map, known);
    CHECK(map.merge(kStart, entry(6, 1, 1000), lives) == Heard::kNothingNew);
    TokenEntry forged = entry(10, 1, 7);
    forged.tokens += 1;
    CHECK(map.merge(kStart, forged, lives) == Heard::kForged);
    CHECK(sum(map) == 131);
    for (std::uint64_t id = 10; id < 13; ++id) {
      CHECK(map.totals().contains(PeerId{4}) == (id < 11));
      CHECK(map.totals().contains(PeerId{5}) == (id < 12));
      CHECK(map.merge(kStart, entry(id, 1, 7), lives) == Heard::kNews);
    }
    CHECK(map.merge(kStart, entry(13, 1, 7), lives) == Heard::kNothingNew);  // all live
    CHECK(map.merge(kStart, entry(12, 1, 8), lives) == Heard::kNews);
    CHECK(sum(map) == 1 + 7 + 7 + 8);
    std::next_permutation(known.begin(), known.end(),
                          [](const auto& one, const auto& other) { return one.key < other.key; });
  }
}

TEST_CASE("a full map is restored but for the fewest tokens, and all of the own count") {
  const std::vector<TokenEntry> full{entry(1, 1, 5), entry(1, 2, 300), entry(2, 1, 9000),
                                     entry(3, 1, 70)};
  TokenMap map = map_of(kSelf, full, full.size());
  CHECK(map.entries().size() == full.size());
  CHECK(sum(map) == 9370);
  CHECK(map.in_own_weights() == 305);
}

TEST_CASE("ten thousand lives of one peer crowd out nobody who lives, and all of them count") {
  constexpr std::uint64_t kLives = 10'000, kShort = 1000, kLong = 1'000'000;
  TokenMap map = map_of(kSelf);
  std::uint64_t life = 0, total = 0;
  const auto epoch = [&] { return 1 + life / 1000; };  // all others restart now and then
  const auto lives = [&](const PeerKey& key) {
    return key.incarnation == (key.id == PeerId{99} ? life : epoch());
  };
  const auto hear = [&](const TokenEntry& news) {
    total += news.tokens;
    return map.merge(kStart, news, lives) == Heard::kNews;
  };
  double before = 0;
  while (++life <= kLives) {
    REQUIRE(hear(entry(99, life, kShort)));
    for (std::uint64_t id = 10; life % 1000 == 0 && id < 20; ++id) {
      REQUIRE(hear(entry(id, epoch(), kLong, 5)));
      map.sketch().add({PeerId{id}, epoch()}, kLong);  // as its own, sooner or later
    }
    if (life % 500 != 0) continue;
    CAPTURE(life);
    const double now = estimate(map);
    CHECK(now == doctest::Approx(static_cast<double>(total)).epsilon(0.2));
    CHECK(now >= before);
    before = now;
  }
  life = kLives;
  CHECK(map.entries().size() == TokenMap::kEntriesMax);
  int living = 0;
  map.for_each([&](const PeerKey& key, std::uint64_t, float rate) {
    living += lives(key) && rate == 5 ? 1 : 0;
  });
  CHECK(living == 10);
  for (std::uint64_t id = 10; id < 20; ++id) CHECK(map.totals().at(PeerId{id}) == 10 * kLong);
}

TEST_CASE("what a checkpoint has missed is told by the peers that it knew, each life at its rate") {
  TokenMap map = map_of(kSelf, std::vector<TokenEntry>{entry(1, 3, 300), entry(2, 1, 1000, 10),
                                                       entry(3, 1, 1000, 10), entry(4, 1, 500)});
  CHECK(map.missed().empty());  // nobody has told of itself
  merge_all(map, {entry(5, 1, 90'000, 100), entry(2, 1, 1500, 5), entry(2, 2, 200, 50),
                  entry(4, 2, 700)});
  const auto missed = map.missed();
  REQUIRE(missed.size() == 1);  // the fifth was not known, the fourth has no rate
  CHECK(missed[0].peer == PeerId{2});
  CHECK(missed[0].seconds == doctest::Approx(500 / 5.0 + 200 / 50.0));
}

TEST_CASE("what others remember of our former lives is not in weights that were not restored") {
  TokenMap fresh = map_of(kSelf);
  CHECK(fresh.merge(kStart, entry(1, 3, 500)) == Heard::kNews);
  fresh.set_own(kStart, 20, 1);
  CHECK(fresh.totals().at(kSelf.id) == 520);
  CHECK(fresh.in_own_weights() == 20);

  TokenMap restored = map_of(kSelf, std::vector<TokenEntry>{entry(1, 3, 300), entry(2, 1, 7)});
  CHECK(restored.merge(kStart, entry(1, 3, 500)) == Heard::kNews);
  restored.set_own(kStart, 20, 1);
  CHECK(restored.in_own_weights() == 320);
}

TEST_CASE("what a process trained before it died is told beside any amount of news") {
  Rng rng(9);
  TokenMap map = map_of({PeerId{1}, 1});
  const PeerKey dead{PeerId{2}, 1};
  REQUIRE(map.merge(kStart, signed_entry(dead, 5000)) == Heard::kNews);
  std::uint64_t told = 0;
  for (std::uint64_t tokens = 1; tokens <= 200; ++tokens) {
    for (std::uint64_t id = 10; id < 110; ++id) {
      static_cast<void>(map.merge(kStart, entry(id, 1, tokens, 1)));
    }
    BoundedList<TokenEntry, kTokensMax> list;
    map.fill(kStart, list, rng);
    const auto is_dead = [&dead](const TokenEntry& entry) { return entry.key == dead; };
    told += std::any_of(list.begin(), list.end(), is_dead) ? 1 : 0;
  }
  CHECK(told > 8);
}

}  // namespace starling::gossip
