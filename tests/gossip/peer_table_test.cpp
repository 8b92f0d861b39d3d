#include <doctest/doctest.h>

#include <vector>

#include "gossip/peer_table.h"

namespace starling::gossip {
namespace {

using Change = PeerTable::Change;
constexpr Instant kStart{};

PeerRecord record(std::uint64_t id, std::uint64_t start, std::uint64_t refutations,
                  Health health = Health::kAlive) {
  PeerRecord made{record_key({PeerId{id}, start}, refutations), {}, health};
  REQUIRE(set_host(made.address, "host"));
  made.address.control_port = 7000;
  return made;
}

}  // namespace

TEST_CASE("a higher incarnation wins, and for equal ones the worse health") {
  CHECK(supersedes(record(1, 2, 0), record(1, 1, 9, Health::kLeft)));
  CHECK(supersedes(record(1, 1, 1), record(1, 1, 0, Health::kDead)));
  CHECK(supersedes(record(1, 1, 0, Health::kSuspect), record(1, 1, 0)));
  CHECK(supersedes(record(1, 1, 0, Health::kLeft), record(1, 1, 0, Health::kDead)));
  CHECK_FALSE(supersedes(record(1, 1, 0), record(1, 1, 0)));
  CHECK_FALSE(supersedes(record(1, 1, 0), record(1, 1, 0, Health::kSuspect)));
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
    for (const PeerRecord& rumor : rumors) static_cast<void>(one.merge(kStart, rumor));
    for (int i = 0; i < 3; ++i) {
      for (auto rumor = rumors.rbegin(); rumor != rumors.rend(); ++rumor) {
        static_cast<void>(other.merge(kStart, *rumor));
      }
    }
    for (const auto& [id, peer] : one.rows()) REQUIRE(other.find(id)->record == peer.record);
  }
}

TEST_CASE("a new process of a peer has to be welcomed again and a denied rumor has not") {
  PeerTable table(4, Duration::zero());
  CHECK(table.merge(kStart, record(1, 1, 0)) == Change::kNew);
  table.find(PeerId{1})->welcomed = true;
  table.find(PeerId{1})->offers_seen = 9;
  CHECK(table.merge(kStart, record(1, 1, 0, Health::kSuspect)) == Change::kHealth);
  CHECK(table.merge(kStart, record(1, 1, 1)) == Change::kHealth);
  CHECK(table.merge(kStart, record(1, 1, 2)) == Change::kNone);
  CHECK(table.process(PeerId{1}) == PeerKey{PeerId{1}, 1});
  CHECK(table.find(PeerId{1})->offers_seen == 9);
  CHECK(table.merge(kStart, record(1, 2, 0)) == Change::kProcess);
  CHECK_FALSE(table.process(PeerId{1}));
  CHECK(table.find(PeerId{1})->offers_seen == 0);
}

TEST_CASE("a full table refuses strangers until somebody is long dead") {
  PeerTable table(2, std::chrono::minutes(45));
  CHECK(table.merge(kStart, record(1, 1, 0)) == Change::kNew);
  CHECK(table.merge(kStart, record(2, 1, 0)) == Change::kNew);
  CHECK(table.merge(kStart, record(3, 1, 0)) == Change::kRefused);
  CHECK(table.merge(kStart, record(2, 1, 0, Health::kDead)) == Change::kHealth);
  CHECK(table.merge(kStart + std::chrono::minutes(44), record(3, 1, 0)) == Change::kRefused);
  CHECK(table.merge(kStart + std::chrono::minutes(46), record(3, 1, 0)) == Change::kNew);
  CHECK(table.find(PeerId{2}) == nullptr);
}

TEST_CASE("a message tells its reader first what the reader should deny") {
  Rng rng(5);
  PeerTable table(128, Duration::zero());
  for (std::uint64_t id = 1; id <= 100; ++id) {
    REQUIRE(table.merge(kStart, record(id, 1, 0)) == Change::kNew);
  }
  REQUIRE(table.merge(kStart, record(50, 1, 0, Health::kSuspect)) == Change::kHealth);
  BoundedList<PeerRecord, kRecordsMax> list;
  table.fill(list, PeerId{50}, rng);
  CHECK(list.full());
  CHECK(list[0].key.id == PeerId{50});
  for (std::size_t i = 1; i < list.size(); ++i) CHECK(list[i].key.id != PeerId{50});
}

TEST_CASE("news travels before what everybody knows") {
  Rng rng(6);
  PeerTable table(128, Duration::zero());
  BoundedList<PeerRecord, kRecordsMax> list;
  for (std::uint64_t id = 1; id <= 100; ++id)
    static_cast<void>(table.merge(kStart, record(id, 1, 0)));
  for (int i = 0; i < 400; ++i) {
    list.clear();
    table.fill(list, PeerId{1}, rng);
  }
  REQUIRE(table.merge(kStart, record(42, 1, 0, Health::kDead)) == Change::kHealth);
  list.clear();
  table.fill(list, PeerId{1}, rng);
  CHECK(list[0].key.id == PeerId{42});
}

}  // namespace starling::gossip
