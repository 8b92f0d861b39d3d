#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "gossip/peer_table.h"

namespace starling::gossip {
namespace {

using Change = PeerTable::Change;
constexpr Instant kStart{};
Rng dice(1);

PeerRecord record(std::uint64_t id, std::uint64_t start, std::uint64_t refutations,
                  Health health = Health::kAlive) {
  PeerRecord made{record_key({PeerId{id}, start}, refutations), {}, health};
  REQUIRE(set_host(made.address, "host"));
  made.address.control_port = 7000;
  return made;
}

}  // namespace

TEST_CASE("the farthest address is that of somebody who is present and listens") {
  PeerTable table(8, Duration::zero());
  const auto tell = [&table](std::uint64_t id, const char* host, std::uint64_t refutations = 0,
                             Health health = Health::kAlive, std::uint16_t port = 7000) {
    PeerRecord told = record(id, 1, refutations, health);
    REQUIRE(set_host(told.address, host));
    told.address.control_port = port;
    static_cast<void>(table.merge(kStart, told, dice));
    if (id < 5) table.find(PeerId{id})->met = true;
    return table.farthest();
  };
  CHECK(tell(2, "host") == Reach::kThisNetwork);  // a name tells nothing
  CHECK(tell(3, "9.9.9.9", 0, Health::kAlive, 0) == Reach::kThisNetwork);
  CHECK(tell(4, "2001:db8::4", 0, Health::kSuspect) == Reach::kAnywhere);
  CHECK(tell(4, "2001:db8::4", 0, Health::kDead) == Reach::kThisNetwork);
  CHECK(tell(4, "2001:db8::4", 1) == Reach::kAnywhere);
  CHECK(tell(4, "fd00::4", 2) == Reach::kThisNetwork);  // it has moved
  CHECK(tell(5, "9.9.9.9") == Reach::kThisNetwork);     // hearsay
}

TEST_CASE("a higher incarnation wins, and for equal ones the worse health") {
  CHECK(supersedes(record(1, 2, 0), record(1, 1, 9, Health::kLeft)));
  CHECK(supersedes(record(1, 1, 1), record(1, 1, 0, Health::kDead)));
  CHECK(supersedes(record(1, 1, 0, Health::kSuspect), record(1, 1, 0)));
  CHECK(supersedes(record(1, 1, 0, Health::kLeft), record(1, 1, 0, Health::kDead)));
  CHECK_FALSE(supersedes(record(1, 1, 0), record(1, 1, 0)));
  CHECK_FALSE(supersedes(record(1, 1, 0), record(1, 1, 0, Health::kSuspect)));
}

TEST_CASE("of two things said under one incarnation the same one wins in any order") {
  PeerRecord one = record(1, 1, 0);
  PeerRecord other = one;
  SUBCASE("another address") { other.address.control_port = 7001; }
  SUBCASE("another way to be reached") { other.dialable = false; }
  SUBCASE("forwarding") { other.forwards = true; }
  SUBCASE("other relays") { REQUIRE(other.relays.try_push(PeerId{9})); }
  SUBCASE("something that only a later version knows") { REQUIRE(other.extension.try_push(1)); }
  other.signature[0] = 1;
  CHECK(supersedes(one, other) != supersedes(other, one));
  PeerTable table(4, Duration::zero()), reversed(4, Duration::zero());
  for (const PeerRecord& said : {one, other, one}) {
    static_cast<void>(table.merge(kStart, said, dice));
  }
  for (const PeerRecord& said : {other, one, other}) {
    static_cast<void>(reversed.merge(kStart, said, dice));
  }
  CHECK(table.find(PeerId{1})->record == reversed.find(PeerId{1})->record);
  CHECK(table.digest() == reversed.digest());
  // It changes nothing about a suspicion, neither who raised it nor since when.
  const bool is_one = table.find(PeerId{1})->record == one;
  PeerRecord doubted = is_one ? other : one;
  doubted.health = Health::kSuspect;
  REQUIRE(table.merge(kStart, doubted, dice) == Change::kHealth);
  REQUIRE(table.find(PeerId{1})->accusers.try_push(PeerId{2}));
  PeerRecord winner = is_one ? one : other;
  winner.health = Health::kSuspect;
  CHECK(table.merge(kStart + std::chrono::seconds(1), winner, dice) == Change::kNone);
  CHECK(table.find(PeerId{1})->record == winner);
  CHECK(table.find(PeerId{1})->accusers.size() == 1);
  CHECK(table.find(PeerId{1})->health_since == kStart);
}

TEST_CASE("rumors give the same table in any order and any number") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    std::vector<PeerRecord> rumors;
    for (int i = 0; i < 60; ++i) {
      rumors.push_back(record(1 + rng.below(4), 1 + rng.below(2), rng.below(3),
                              static_cast<Health>(rng.below(4))));
    }
    PeerTable one(16, Duration::zero());
    PeerTable other(16, Duration::zero());
    for (std::uint64_t id = 1; id <= 4; ++id) {  // the end of a stranger is not remembered
      static_cast<void>(one.merge(kStart, record(id, 0, 0), dice));
      static_cast<void>(other.merge(kStart, record(id, 0, 0), dice));
    }
    for (const PeerRecord& rumor : rumors) static_cast<void>(one.merge(kStart, rumor, dice));
    for (int i = 0; i < 3; ++i) {
      for (auto rumor = rumors.rbegin(); rumor != rumors.rend(); ++rumor) {
        static_cast<void>(other.merge(kStart, *rumor, dice));
      }
    }
    for (const auto& [id, peer] : one.rows()) REQUIRE(other.find(id)->record == peer.record);
  }
}

TEST_CASE("a new process of a peer has to be welcomed again and a denied rumor has not") {
  PeerTable table(4, Duration::zero());
  CHECK(table.merge(kStart, record(1, 1, 0), dice) == Change::kNew);
  table.find(PeerId{1})->welcomed = true;
  table.find(PeerId{1})->offers_seen = 9;
  CHECK(table.merge(kStart, record(1, 1, 0, Health::kSuspect), dice) == Change::kHealth);
  CHECK(table.merge(kStart, record(1, 1, 1), dice) == Change::kHealth);
  CHECK(table.merge(kStart, record(1, 1, 2), dice) == Change::kNone);
  CHECK(table.process(PeerId{1}) == PeerKey{PeerId{1}, 1});
  CHECK(table.find(PeerId{1})->offers_seen == 9);
  CHECK(table.merge(kStart, record(1, 2, 0), dice) == Change::kProcess);
  CHECK_FALSE(table.process(PeerId{1}));
  CHECK(table.find(PeerId{1})->offers_seen == 0);
}

TEST_CASE("a suspicion begins anew after each denial, and not with each word of it") {
  PeerTable table(4, Duration::zero());
  REQUIRE(table.merge(kStart, record(1, 1, 0, Health::kSuspect), dice) == Change::kNew);
  const Peer& peer = *table.find(PeerId{1});
  const Instant later = kStart + std::chrono::seconds(4);
  CHECK(table.merge(later, record(1, 1, 0, Health::kSuspect), dice) == Change::kNone);
  CHECK(peer.health_since == kStart);
  CHECK(table.merge(later, record(1, 1, 1, Health::kSuspect), dice) == Change::kNone);
  CHECK(peer.health_since == later);
}

TEST_CASE("a full table forgets somebody for a stranger, but nobody it holds a line to") {
  PeerTable table(2, std::chrono::minutes(45));
  CHECK(table.merge(kStart, record(1, 1, 0), dice) == Change::kNew);
  CHECK_FALSE(table.full());
  CHECK(table.merge(kStart, record(2, 1, 0), dice) == Change::kNew);
  CHECK(table.full());
  table.find(PeerId{1})->connected = true;
  for (std::uint64_t id = 3; id < 20; ++id) {
    const Change change = table.merge(kStart, record(id, 1, 0), dice);
    const bool known = table.find(PeerId{id}) != nullptr;
    CHECK(known == (change == Change::kNew));
    CHECK(table.find(PeerId{1}) != nullptr);
    CHECK(table.rows().size() == 2);
  }
  table.find(PeerId{1})->connected = false;
  PeerRecord stale = record(30, 1, 0);
  stale.age_s = 3600;
  CHECK(table.merge(kStart, stale, dice) == Change::kRefused);
}

TEST_CASE("the dead keep their place for a while, unless they are many") {
  PeerTable table(8, std::chrono::minutes(45));
  for (std::uint64_t id = 1; id <= 8; ++id) {
    REQUIRE(table.merge(kStart, record(id, 1, 0), dice) == Change::kNew);
  }
  for (const std::uint64_t id : {1, 2}) {
    REQUIRE(table.merge(kStart, record(id, 1, 0, Health::kDead), dice) == Change::kHealth);
  }
  const auto churn = [&](Instant now, std::uint64_t first) {
    for (std::uint64_t id = first; id < first + 200; ++id) {
      static_cast<void>(table.merge(now, record(id, 1, 0), dice));
    }
  };
  churn(kStart + std::chrono::minutes(44), 100);
  CHECK(table.count(Health::kDead) == 2);
  churn(kStart + std::chrono::minutes(46), 1000);
  CHECK(table.count(Health::kDead) == 0);
  CHECK(table.present() == 8);
  for (const auto& [id, peer] : std::map<PeerId, Peer>(table.rows())) {
    if (table.count(Health::kDead) == 4) break;
    static_cast<void>(table.merge(kStart, record(id.value, 1, 0, Health::kDead), dice));
  }
  REQUIRE(table.count(Health::kDead) == 4);
  churn(kStart, 2000);
  CHECK(table.count(Health::kDead) <= 2);
}

TEST_CASE("the end of a stranger makes no row and the gone are forgotten after a day") {
  PeerTable table(8, std::chrono::minutes(45));
  CHECK(table.merge(kStart, record(1, 1, 0, Health::kDead), dice) == Change::kRefused);
  CHECK(table.merge(kStart, record(1, 1, 0), dice) == Change::kNew);
  CHECK(table.merge(kStart, record(1, 1, 0, Health::kLeft), dice) == Change::kHealth);
  table.forget_old(kStart + std::chrono::hours(23), dice);
  CHECK(table.rows().size() == 1);
  table.forget_old(kStart + std::chrono::hours(24), dice);
  CHECK(table.rows().empty());
}

TEST_CASE("a change is told before the names of a thousand newcomers") {
  PeerTable table(1024, Duration::zero());
  for (std::uint64_t id = 1; id <= 1000; ++id) {
    REQUIRE(table.merge(kStart, record(id, 1, 0), dice) == Change::kNew);
  }
  REQUIRE(table.merge(kStart, record(500, 1, 0, Health::kSuspect), dice) == Change::kHealth);
  // Then for as many messages as it is news; and the newcomers have their turn, too.
  int times = 0;
  std::size_t others = 0;
  for (int message = 0; message < 100; ++message) {
    PeerTable::RecordList list;
    table.fill(list, kStart, PeerId{7}, dice);
    const auto* found = std::find_if(list.begin(), list.end(), [](const PeerRecord& told) {
      return told.health == Health::kSuspect;
    });
    if (found != list.end() && times == message) ++times;
    others += list.size();
  }
  CHECK(times >= 15);
  CHECK(others > 1000);
}

TEST_CASE("every peer has its turn once per round, whoever comes and goes") {
  PeerTable table(64, Duration::zero());
  for (std::uint64_t id = 1; id <= 64; ++id) {
    REQUIRE(table.merge(kStart, record(id, 1, 0), dice) == Change::kNew);
  }
  for (int round = 0; round < 5; ++round) {
    std::map<PeerId, int> turns;
    for (int i = 0; i < 64; ++i) ++turns[table.next_in_round(dice).record.key.id];
    CHECK(turns.size() == 64);
  }
  // Some turns into a round, others take the places of some: those that stay keep their one turn.
  std::map<PeerId, int> turns;
  for (int i = 0; i < 20; ++i) ++turns[table.next_in_round(dice).record.key.id];
  for (std::uint64_t id = 100; id < 110; ++id) {
    REQUIRE(table.merge(kStart, record(id, 1, 0), dice) == Change::kNew);
  }
  for (int i = 0; i < 64; ++i) {
    const PeerId id = table.next_in_round(dice).record.key.id;
    if (++turns[id] > 1) break;
  }
  int missed = 0;
  for (const auto& [id, peer] : table.rows()) missed += turns.count(id) == 0 ? 1 : 0;
  CHECK(missed == 0);
}

TEST_CASE("counts by health and the digest follow every change") {
  PeerTable table(6, Duration::zero());
  Rng rng(8);
  for (int i = 0; i < 2000; ++i) {
    PeerRecord news =
        record(1 + rng.below(12), 1, rng.below(1000), static_cast<Health>(rng.below(4)));
    news.dialable = rng.chance(0.5);
    static_cast<void>(table.merge(kStart, news, rng));
    std::array<std::uint64_t, 4> counted{};
    std::uint64_t undialable = 0;
    std::array<std::uint64_t, kBucketsMax> digest{};
    for (const auto& [id, peer] : table.rows()) {
      ++counted[static_cast<std::size_t>(peer.record.health)];
      if (is_gone(peer.record.health)) continue;
      undialable += peer.record.dialable ? 0 : 1;
      digest[PeerTable::part_of(id)] ^= PeerTable::digest_of(peer.record);
    }
    REQUIRE(table.digest() == digest);
    REQUIRE(table.undialable() == undialable);
    for (std::size_t health = 0; health < 4; ++health) {
      REQUIRE(table.count(static_cast<Health>(health)) == counted[health]);
    }
  }
}

TEST_CASE("equal views have equal digests and differing parts hold what differs") {
  PeerTable one(64, Duration::zero());
  PeerTable other(64, Duration::zero());
  for (std::uint64_t id = 1; id <= 40; ++id) {
    static_cast<void>(one.merge(kStart, record(id, 1, 0), dice));
    static_cast<void>(other.merge(kStart, record(41 - id, 1, 0), dice));
  }
  CHECK(one.digest() == other.digest());
  REQUIRE(other.merge(kStart, record(7, 1, 0, Health::kDead), dice) == Change::kHealth);
  std::array<bool, kBucketsMax> differs{};
  const auto left = one.digest();
  const auto right = other.digest();
  for (std::size_t i = 0; i < kBucketsMax; ++i) differs[i] = left[i] != right[i];
  CHECK(std::count(differs.begin(), differs.end(), true) == 1);
  bool found = false;
  for (const PeerRecord& told : other.of_parts(differs, kStart, 64, dice)) {
    found = found || (told.key.id == PeerId{7} && told.health == Health::kDead);
  }
  CHECK(found);
  CHECK(other.of_parts(differs, kStart, 0, dice).empty());
}

TEST_CASE("a message tells its reader first what the reader should deny") {
  Rng rng(5);
  PeerTable table(128, Duration::zero());
  for (std::uint64_t id = 1; id <= 100; ++id) {
    REQUIRE(table.merge(kStart, record(id, 1, 0), dice) == Change::kNew);
  }
  REQUIRE(table.merge(kStart, record(50, 1, 0, Health::kSuspect), dice) == Change::kHealth);
  BoundedList<PeerRecord, kRecordsMax> list;
  table.fill(list, kStart, PeerId{50}, rng);
  CHECK(list.size() > 1);
  CHECK(list[0].key.id == PeerId{50});
  for (std::size_t i = 1; i < list.size(); ++i) CHECK(list[i].key.id != PeerId{50});
}

TEST_CASE("word of one that is silent grows old, however often it goes around") {
  Rng rng(7);
  PeerTable one(16, Duration::zero());
  PeerTable other(16, Duration::zero());
  REQUIRE(one.merge(kStart, record(9, 1, 0), rng) == Change::kNew);
  REQUIRE(other.merge(kStart, record(9, 1, 0), rng) == Change::kNew);
  const Instant born = one.find(PeerId{9})->alive_at;
  Instant now = kStart;
  for (int way = 0; way < 5000; ++way) {
    const PeerRecord told = PeerTable::told(*(way % 2 == 0 ? one : other).find(PeerId{9}), now);
    now += std::chrono::milliseconds(rng.below(900));
    static_cast<void>((way % 2 == 0 ? other : one).merge(now, told, rng));
  }
  CHECK(one.find(PeerId{9})->alive_at == born);
  CHECK(other.find(PeerId{9})->alive_at == born);
}

TEST_CASE(
    "ages are told of those that nobody can dial, and of all where others may keep a sample") {
  Rng rng(3);
  PeerTable table(400, Duration::zero());
  PeerTable::AgeList ages;
  const auto add = [&](std::uint64_t first, std::uint64_t end, bool dialable) {
    for (std::uint64_t id = first; id < end; ++id) {
      PeerRecord made = record(id, 1, 0);
      made.dialable = dialable;
      REQUIRE(table.merge(kStart, made, rng) == Change::kNew);
    }
  };
  const auto told = [&] {
    ages.clear();
    table.fill_ages(ages, kStart, PeerId{100}, rng);
    return ages.size();
  };
  add(1, 100, true);
  CHECK(told() == 0);
  add(100, 150, false);
  for (int message = 0; message < 50; ++message) {
    CHECK(told() > kAgesMax / 2);
    for (const PeerAge& age : ages) CHECK(age.id > PeerId{100});
  }
  add(150, 310, true);
  CHECK(table.nearly_full());
  CHECK(told() > kAgesMax / 2);
  CHECK(std::any_of(ages.begin(), ages.end(),
                    [](const PeerAge& age) { return age.id < PeerId{100}; }));
}

TEST_CASE("word of those that were met is not crowded out by hearsay") {
  Rng rng(8);
  PeerTable table(1024, Duration::zero());
  BoundedList<PeerRecord, kRecordsMax> list;
  for (std::uint64_t id = 1; id <= 20; ++id) {
    REQUIRE(table.merge(kStart, record(id, 1, 0), rng) == Change::kNew);
  }
  for (int i = 0; i < 100; ++i) {  // old news by now
    list.clear();
    table.fill(list, kStart, PeerId{1}, rng);
  }
  for (std::uint64_t id = 1; id <= 20; ++id) table.find(PeerId{id})->met = true;
  for (std::uint64_t id = 101; id <= 900; ++id) {
    REQUIRE(table.merge(kStart, record(id, 1, 0), rng) == Change::kNew);
  }
  for (std::uint64_t id = 5; id <= 12; ++id) {
    REQUIRE(table.merge(kStart, record(id, 1, 0, Health::kSuspect), rng) == Change::kHealth);
  }
  list.clear();
  table.fill(list, kStart, PeerId{1}, rng);
  const auto of_met = [](const auto& records) {
    return std::count_if(records.begin(), records.end(),
                         [](const PeerRecord& told) { return told.key.id.value <= 20; });
  };
  CHECK(of_met(list) >= 6);
  std::array<bool, kBucketsMax> all{};
  all.fill(true);
  CHECK(of_met(table.of_parts(all, kStart, 64, rng)) >= 20);
}

TEST_CASE("news travels before what everybody knows") {
  Rng rng(6);
  PeerTable table(128, Duration::zero());
  BoundedList<PeerRecord, kRecordsMax> list;
  for (std::uint64_t id = 1; id <= 100; ++id)
    static_cast<void>(table.merge(kStart, record(id, 1, 0), dice));
  for (int i = 0; i < 400; ++i) {
    list.clear();
    table.fill(list, kStart, PeerId{1}, rng);
  }
  REQUIRE(table.merge(kStart, record(42, 1, 0, Health::kDead), dice) == Change::kHealth);
  list.clear();
  table.fill(list, kStart, PeerId{1}, rng);
  CHECK(list[0].key.id == PeerId{42});
}

}  // namespace starling::gossip
