// What changes where the view is a sample of the swarm: whom one asks may have forgotten the asker,
// and a denial may miss some.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Letter = CoreBench::Letter;

// What peer 1 answers to a ping of a peer that it has never heard of.
std::optional<Pong> answer_to_stranger(std::uint32_t peers_max) {
  CoreBench bench;
  bench.config.peers_max = peers_max;
  bench.start_swarm(8);
  bench.start(9);
  std::optional<Pong> answer;
  bench.passes = [&answer](const Letter& letter) {
    if (letter.to == PeerId{9}) answer = std::get<Pong>(letter.message);
    return letter.to != PeerId{9};
  };
  Ping ping;
  ping.nonce = 77;
  bench.deliver({PeerId{9}, PeerId{1}, ping});
  const auto rows = bench.core(1).peers();
  CHECK(std::none_of(rows.begin(), rows.end(),
                     [](const PeerRecord& record) { return record.key.id == PeerId{9}; }));
  return answer;
}

void tell(CoreBench& bench, std::uint64_t subject, Health health) {
  Records message;
  PeerRecord record = signed_record(bench, subject);
  record.health = health;
  if (health == Health::kSuspect) record.accuser = PeerId{2};
  REQUIRE(message.records.try_push(record));
  bench.deliver({PeerId{2}, PeerId{1}, message});
}

}  // namespace

TEST_CASE("who was forgotten hears that its partner lives, and no more") {
  const auto pong = answer_to_stranger(8);
  REQUIRE(pong);
  CHECK(pong->nonce == 77);
  CHECK(pong->records.empty());
  CHECK(pong->ages.empty());
  CHECK(pong->tokens.empty());
  // Where all are known a stranger is one.
  CHECK_FALSE(answer_to_stranger(1024));
}

TEST_CASE("who was forgotten is told so when it offers an exchange") {
  for (const std::uint32_t peers_max : {8U, 1024U}) {
    CAPTURE(peers_max);
    CoreBench bench;
    bench.config.peers_max = peers_max;
    bench.start_swarm(8);
    bench.start(9);
    std::vector<Letter> answers;
    bench.passes = [&answers](const Letter& letter) {
      if (letter.to == PeerId{9}) answers.push_back(letter);
      return letter.to != PeerId{9};
    };
    const ExchangeKey exchange{{PeerId{9}, 1}, {PeerId{1}, 1}, 1};
    bench.deliver({PeerId{9}, PeerId{1}, Offer{exchange, FragmentId{0}, 3}});
    const ExchangeKey anothers{{PeerId{10}, 1}, {PeerId{1}, 1}, 1};
    bench.deliver({PeerId{9}, PeerId{1}, Offer{anothers, FragmentId{0}, 3}});
    const bool is_sample = peers_max == 8;
    REQUIRE(answers.size() == (is_sample ? 1 : 0));
    if (!is_sample) continue;
    const Decline decline = std::get<Decline>(answers[0].message);
    CHECK(decline.exchange == exchange);
    CHECK(decline.reason == DeclineReason::kUnknownPeer);
  }
}

TEST_CASE("in a sample nobody is buried before he was asked") {
  constexpr std::uint64_t kFirst = 100, kRows = 640, kSuspects = 60;
  CoreBench bench;
  bench.config.connections_max = 1;  // nobody is greeted to be known better
  bench.config.peers_max = kRows;
  bench.start_swarm(2);
  for (std::uint64_t id = kFirst; id < kFirst + kRows; ++id) {
    tell(bench, id, Health::kAlive);
    if (id % 50 == 0) bench.run(seconds(1));  // or it would say too much at once
  }
  const auto rows = bench.core(1).peers();
  std::vector<PeerRecord> suspects;
  for (const PeerRecord& record : rows) {
    if (record.key.id != PeerId{2} && suspects.size() < kSuspects) suspects.push_back(record);
  }
  bench.node(1).greetings.clear();
  bench.node(1).changed.clear();
  for (const PeerRecord& record : suspects) {
    tell(bench, record.key.id.value, Health::kSuspect);
    bench.run(milliseconds(100));
  }
  const auto is_buried = [&](const PeerRecord& record) {
    const auto& changed = bench.node(1).changed;
    return std::any_of(changed.begin(), changed.end(), [&](const PeerChanged& change) {
      return change.record.key.id == record.key.id && change.record.health == Health::kDead;
    });
  };
  const auto was_asked = [&](const PeerRecord& record) {
    const auto& greetings = bench.node(1).greetings;
    return std::any_of(greetings.begin(), greetings.end(),
                       [&](const Greet& greet) { return greet.address == record.address; });
  };
  std::set<PeerId> asked;  // a moment ago at least
  for (int second = 0; second < 200; ++second) {
    bench.run(seconds(1));
    for (const PeerRecord& record : suspects) {
      if (is_buried(record)) CHECK(asked.count(record.key.id) == 1);
      if (was_asked(record)) asked.insert(record.key.id);
    }
  }
  CHECK(asked.size() == kSuspects);
  CHECK(std::all_of(suspects.begin(), suspects.end(), is_buried));
}

TEST_CASE("a member that invents a crowd keeps nobody from his seed") {
  CoreBench bench;
  bench.config.peers_max = 32;
  bench.start(1);
  bench.join(1, 2);  // which is away
  bench.start(3);
  bench.join(3, 1);
  std::uint64_t invented = 1000;
  for (int second = 0; second < 30; ++second) {
    for (int message = 0; message < 30; ++message) {
      Records records;
      while (records.records.try_push(signed_record(bench, ++invented))) {
      }
      bench.deliver({PeerId{3}, PeerId{1}, records});
    }
    bench.run(seconds(1));
  }
  CHECK(bench.core(1).stats().partners == 1);
  const auto greets_seed = [&] {
    const auto& greetings = bench.node(1).greetings;
    return std::count_if(greetings.begin(), greetings.end(), [](const Greet& greet) {
      return greet.address == CoreBench::address_of(PeerId{2});
    });
  };
  const auto before = greets_seed();
  bench.run(minutes(90));
  CHECK(greets_seed() > before);
  bench.crash(3);
  bench.run(minutes(1));
  bench.start(2);
  bench.run(minutes(1));
  CHECK(bench.core(1).stats().partners == 1);
}

TEST_CASE("who learns that it was forgotten introduces itself again") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.run(seconds(30));
  bench.node(1).greetings.clear();
  bool forgets = true;
  bench.passes = [&](const Letter& letter) {
    return !forgets || letter.to != PeerId{2} || !is<Offer>(letter.message);
  };
  for (int round = 0; round < 2; ++round) {
    bench.publish(1, 0);
    bench.run(milliseconds(300));  // behind the pause that a decline leaves
    REQUIRE(bench.held.size() == 1);
    const Offer offer = std::get<Offer>(bench.held.back().message);
    bench.held.clear();
    bench.deliver({PeerId{2}, PeerId{1}, Decline{offer.exchange, DeclineReason::kUnknownPeer, 0}});
    CHECK(bench.node(1).greetings.size() == 1);  // not at every word of it
  }
  CHECK(bench.node(1).greetings[0].address == CoreBench::address_of(PeerId{2}));
}

}  // namespace starling::gossip
