// Whose rows make room where a table is a sample, and what is remembered of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "gossip/peer_table.h"

namespace starling::gossip {
namespace {

using Change = PeerTable::Change;
using std::chrono::seconds;

constexpr std::uint32_t kRows = 4;

// A full table, and strangers by the dozen.
struct Sample {
  Sample() {
    for (std::uint64_t id = 1; id <= kRows; ++id) tell(id);
  }

  Change tell(std::uint64_t id, Health health = Health::kAlive, std::uint64_t start = 1,
              std::uint16_t age_s = 0) {
    PeerRecord record{record_key({PeerId{id}, start}, 0), {}, health};
    REQUIRE(set_host(record.address, "host"));
    record.age_s = age_s;
    return table.merge(now, record, dice);
  }
  bool knows(std::uint64_t id) const { return table.find(PeerId{id}) != nullptr; }
  // Strangers come until that one's row is gone.
  void crowd_out(std::uint64_t id) {
    for (std::uint64_t other = 100; knows(id) && other < 1000; ++other) {
      tell(other);
      if (const PeerId suspect = table.take_given_up(); suspect != PeerId{}) {
        given_up.insert(suspect);
      }
    }
    REQUIRE_FALSE(knows(id));
  }

  PeerTable table{kRows, seconds(30)};
  Rng dice{7};
  Instant now = Instant{} + seconds(1000);
  std::set<PeerId> given_up;
};

}  // namespace

TEST_CASE("a suspect makes room like everybody, and that is told") {
  Sample sample;
  for (std::uint64_t id = 1; id <= kRows; ++id) sample.tell(id, Health::kSuspect);
  REQUIRE(sample.table.count(Health::kSuspect) == kRows);
  CHECK(sample.tell(50) == Change::kNew);  // a table of suspects is not closed
  CHECK(sample.table.take_given_up() != PeerId{});
  CHECK(sample.table.take_given_up() == PeerId{});  // each once
  for (std::uint64_t id = 1; id <= kRows; ++id) {
    if (sample.knows(id)) sample.crowd_out(id);
  }
  CHECK(sample.given_up.size() == kRows - 1);
  CHECK(sample.table.count(Health::kSuspect) == 0);
}

TEST_CASE("who makes room at the end of a round takes nobody else's turn") {
  Sample sample;
  for (std::uint64_t stranger = 100; stranger < 200; ++stranger) {
    CAPTURE(stranger);
    std::set<PeerId> had_turns;
    // A round and what is left of the one before, and some: they end anywhere, the end included.
    for (std::uint64_t i = 0; i < 2 * kRows + stranger % kRows; ++i) {
      had_turns.insert(sample.table.next_in_round(sample.dice).record.key.id);
    }
    REQUIRE(had_turns.size() == kRows);
    for (const PeerId id : had_turns) REQUIRE(sample.table.find(id) != nullptr);
    for (const std::uint64_t one : {stranger, 1000 + stranger}) {
      REQUIRE(sample.tell(one) == Change::kNew);
    }
  }
}

TEST_CASE("who was doubted and forgotten comes back with a later sign of life alone") {
  Sample sample;
  sample.tell(2, Health::kSuspect);
  sample.crowd_out(2);
  sample.now += seconds(10);
  CHECK(sample.tell(2, Health::kAlive, 1, 30) == Change::kRefused);  // older than the doubt
  CHECK(sample.tell(2, Health::kSuspect, 1, 30) == Change::kRefused);
  CHECK(sample.tell(2, Health::kAlive, 1, 2) == Change::kNew);
  sample.crowd_out(2);
  sample.tell(3);
  sample.tell(3, Health::kDead);
  sample.now += seconds(60);
  sample.crowd_out(3);
  CHECK(sample.tell(3, Health::kAlive, 1, 300) == Change::kRefused);
  CHECK(sample.tell(3, Health::kAlive, 2, 300) == Change::kNew);  // another life
}

TEST_CASE("an exchange that was answered stays so when its initiator was forgotten") {
  Sample sample;
  sample.table.find(PeerId{1})->offers_seen = 17;
  sample.crowd_out(1);
  sample.now += seconds(10);
  CHECK(sample.tell(1, Health::kAlive, 1, 600) == Change::kNew);  // nobody had doubted it
  CHECK(sample.table.find(PeerId{1})->offers_seen == 17);
  sample.crowd_out(1);
  CHECK(sample.tell(1, Health::kAlive, 2) == Change::kNew);
  CHECK(sample.table.find(PeerId{1})->offers_seen == 0);  // its counters begin anew
}

TEST_CASE("names that are invented and doubted at once leave no trail in the lists of news") {
  Sample sample;
  constexpr std::uint64_t kLast = 10000;
  for (std::uint64_t id = 100; id <= kLast; ++id) {
    if (sample.tell(id, Health::kSuspect) != Change::kNew) continue;
    sample.table.tell(*sample.table.find(PeerId{id}));
    REQUIRE(sample.table.news_are_bounded());
  }
  // What is true now is not lost among what was.
  const PeerId last = sample.table.rows().rbegin()->first;
  sample.tell(last.value, Health::kDead);
  bool told = false;
  for (int message = 0; message < 20 && !told; ++message) {
    PeerTable::RecordList list;
    sample.table.fill(list, sample.now, PeerId{1}, sample.dice);
    told = std::any_of(list.begin(), list.end(),
                       [&](const PeerRecord& record) { return record.key.id == last; });
  }
  CHECK(told);
}

}  // namespace starling::gossip
