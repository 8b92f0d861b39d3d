// What a member that lies about others' lives achieves: whom it can have dialled, and how long it
// can keep the dead among the living.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "gossip/membership.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Letter = CoreBench::Letter;

bool greeted(const CoreBench::Node& node, const PeerRecord& record) {
  return std::any_of(node.greetings.begin(), node.greetings.end(),
                     [&record](const Greet& greet) { return greet.address == record.address; });
}

std::size_t deaths_seen(CoreBench& bench, std::uint64_t peers) {
  std::size_t deaths = 0;
  for (std::uint64_t id = 1; id <= peers; ++id) {
    for (const PeerChanged& event : bench.node(id).changed) {
      deaths += event.record.health == Health::kDead ? 1 : 0;
    }
  }
  return deaths;
}

}  // namespace

TEST_CASE("nobody is dialled on the word of one who asks about somebody unheard of") {
  CoreBench bench;
  bench.start_swarm(3);
  PeerRecord forged = signed_record(bench, 9);
  forged.signature = {};
  std::vector<PingAnswer> answers;
  bench.passes = [&](const Letter& letter) {
    if (is<PingAnswer>(letter.message)) answers.push_back(std::get<PingAnswer>(letter.message));
    return true;
  };
  bench.deliver({PeerId{1}, PeerId{2}, PingRequest{77, forged}});
  CHECK_FALSE(greeted(bench.node(2), forged));
  REQUIRE(answers.size() == 1);
  CHECK_FALSE(answers[0].reached);
  REQUIRE(bench.core(2).muted(bench.now, PeerId{1}));
  answers.clear();
  const PeerRecord real = signed_record(bench, 10);  // of one that has not been heard of
  bench.deliver({PeerId{1}, PeerId{2}, PingRequest{78, real}});
  CHECK_FALSE(greeted(bench.node(2), real));
  CHECK(answers.empty());
  bench.deliver({PeerId{3}, PeerId{2}, PingRequest{79, real}});
  CHECK(greeted(bench.node(2), real));
}

TEST_CASE("whoever is not on the list is nobody, struck off or invented") {
  CoreBench bench;
  bench.start_swarm(4);
  const auto knows = [&](std::uint64_t at, std::uint64_t about) {
    const auto views = bench.core(at).peer_views(bench.now, 100);
    return std::any_of(views.begin(), views.end(), [about](const PeerView& view) {
      return view.record.key.id == PeerId{about};
    });
  };
  const PeerRecord invented = signed_record(bench, 20);
  const auto tell = [&](std::uint64_t to, const PeerRecord& record) {
    Ping ping;
    REQUIRE(ping.records.try_push(record));
    bench.deliver({PeerId{2}, PeerId{to}, ping});
  };
  bench.crash(4);
  REQUIRE(knows(1, 4));
  bench.core(1).on_members(bench.now, std::vector<PeerId>{PeerId{2}, PeerId{3}});
  tell(1, invented);
  tell(3, invented);
  CHECK_FALSE(knows(1, 4));
  CHECK_FALSE(knows(1, 20));
  CHECK(knows(3, 20));  // which has no list
  bench.run(seconds(5));
  CHECK_FALSE(knows(1, 4));
  CHECK_FALSE(knows(1, 20));
  CHECK(knows(1, 2));
}

TEST_CASE("one who was struck off and goes on talking is not heard") {
  CoreBench bench;
  bench.start_swarm(4);
  bench.core(1).on_members(bench.now, std::vector<PeerId>{PeerId{2}, PeerId{3}});
  bench.run(seconds(20));  // nobody's door keeps it out
  const auto views = bench.core(1).peer_views(bench.now, 100);
  CHECK(std::none_of(views.begin(), views.end(),
                     [](const PeerView& view) { return view.record.key.id == PeerId{4}; }));
  CHECK(bench.core(1).stats().messages_refused > 0);
}

TEST_CASE("one that compares views all the time leaves answers for others") {
  CoreBench bench;
  bench.start_swarm(3);
  std::map<PeerId, int> answers;
  bench.passes = [&](const Letter& letter) {
    const auto* digest = std::get_if<Digest>(&letter.message);
    if (digest != nullptr && digest->answer) ++answers[letter.to];
    return digest == nullptr || digest->answer;  // nobody compares by itself
  };
  bench.run(seconds(1));
  for (int i = 0; i < 20; ++i) bench.deliver({PeerId{2}, PeerId{1}, Digest{}});
  bench.deliver({PeerId{3}, PeerId{1}, Digest{}});
  CHECK(answers[PeerId{2}] == 1);
  CHECK(answers[PeerId{3}] == 1);
}

TEST_CASE("answers that nobody waits for take nobody's turn to compare") {
  CoreBench bench;
  bench.start_swarm(4);
  std::map<PeerId, int> answers;
  bench.passes = [&](const Letter& letter) {
    const auto* digest = std::get_if<Digest>(&letter.message);
    if (digest != nullptr && digest->answer) ++answers[letter.to];
    return digest == nullptr || digest->answer;
  };
  bench.run(seconds(30));
  const Digest answer{.answer = true, .buckets = {}, .minima = {}};
  for (const std::uint64_t liar : {2, 4}) {
    bench.deliver({PeerId{liar}, PeerId{1}, Digest{}});
    bench.deliver({PeerId{liar}, PeerId{1}, answer});
  }
  bench.deliver({PeerId{3}, PeerId{1}, Digest{}});
  CHECK(answers[PeerId{3}] == 1);
}

TEST_CASE("who begins to fetch again and again is not answered each time") {
  CoreBench bench;
  bench.start_swarm(2);
  int answers = 0;
  bench.passes = [&](const Letter& letter) {
    answers += is<StateDeclined>(letter.message) && letter.to == PeerId{2} ? 1 : 0;
    return true;
  };
  for (int i = 0; i < 2000; ++i) bench.deliver({PeerId{2}, PeerId{1}, PieceRequest{}});
  CHECK(answers > 0);
  CHECK(answers <= 500);
}

TEST_CASE("one that vouches for the dead delays their burial by little") {
  CoreBench bench;
  bench.start_swarm(10);
  bench.run(minutes(1));
  bench.crash(10);
  const PeerId liar{9};
  bench.passes = [liar](const Letter& letter) { return letter.from != liar; };
  Ping vouching;
  REQUIRE(vouching.ages.try_push({PeerId{10}, 0}));
  // The nonces of probes count up from 1: they can be guessed.
  for (int second = 0; second < 60; ++second) {
    for (std::uint64_t id = 1; id < 9; ++id) {
      bench.deliver({liar, PeerId{id}, vouching});
      for (std::uint64_t nonce = 1; nonce < 200; ++nonce) {
        bench.deliver({liar, PeerId{id}, PingAnswer{nonce, PeerId{10}, true}});
      }
    }
    bench.run(seconds(1));
  }
  for (std::uint64_t id = 1; id < 9; ++id) CHECK(bench.core(id).stats().peers_dead == 1);
}

TEST_CASE("made up ages keep one that nobody can dial among the living for an hour at most") {
  CoreBench bench;
  bench.config.ping_interval = seconds(5);
  bench.start_swarm(5);
  bench.walled = true;
  bench.start(6);
  bench.join(6, 1);
  bench.run(minutes(2));
  for (std::uint64_t id = 1; id <= 5; ++id) REQUIRE(bench.core(id).stats().peers_alive == 5);
  // It lives, and all but one hear of it from that one only, for longer than they believe it.
  bench.passes = [](const Letter& letter) {
    return letter.from != PeerId{6} || letter.to == PeerId{1};
  };
  bench.run(minutes(5));  // until they do not rely on its line any more
  for (std::uint64_t id = 1; id <= 6; ++id) bench.node(id).changed.clear();
  bench.run(minutes(70));
  // One relayer of ages may be unlucky in its draws: 0 to 3 in five peers' 70 minutes, all denied.
  CHECK(deaths_seen(bench, 6) <= 5);
  for (std::uint64_t id = 1; id <= 5; ++id) CHECK(bench.core(id).stats().peers_alive == 5);
  pass_all(bench);
  bench.crash(1);  // nobody is left whom its line led to
  bench.crash(6);
  Ping vouching;
  REQUIRE(vouching.ages.try_push({PeerId{6}, 0}));
  for (int minute = 0; minute < 65; ++minute) {
    for (std::uint64_t id = 2; id < 5; ++id) bench.deliver({PeerId{5}, PeerId{id}, vouching});
    bench.run(minutes(1));
  }
  for (std::uint64_t id = 2; id < 5; ++id) CHECK(bench.core(id).stats().peers_dead == 2);
}

namespace {

// The liar tells each of the others, once a second, that the liar suspects it.
void accuse_all(CoreBench& bench, PeerId liar, std::uint64_t peers) {
  for (std::uint64_t id = 1; id <= peers; ++id) {
    if (PeerId{id} == liar || !bench.node(id).core) continue;
    PeerRecord lie = bench.core(id).self();
    lie.health = Health::kSuspect;
    lie.accuser = liar;
    Records message;
    REQUIRE(message.records.try_push(lie));
    bench.deliver({liar, PeerId{id}, message});
  }
}

}  // namespace

TEST_CASE("who accuses all of the living does not make them slow to find the dead") {
  constexpr std::uint64_t kPeers = 8;
  const PeerId liar{5};
  CoreBench bench;
  bench.start_swarm(kPeers);
  for (int second = 0; second < 60; ++second) {
    accuse_all(bench, liar, kPeers);
    bench.run(seconds(1));
  }
  for (std::uint64_t id = 1; id <= kPeers; ++id) CHECK(bench.core(id).stats().health_score == 0);
  bench.crash(kPeers);
  const auto buried_by = [&bench] {
    int observers = 0;
    for (std::uint64_t id = 1; id < kPeers; ++id) {
      observers += bench.core(id).stats().peers_dead == 1 ? 1 : 0;
    }
    return observers;
  };
  int waited = 0;
  for (; waited < 120 && buried_by() < static_cast<int>(kPeers) - 1; ++waited) {
    accuse_all(bench, liar, kPeers);
    bench.run(seconds(1));
  }
  CHECK(waited <= 20);  // 11 where nobody lies
}

TEST_CASE("who claims the last life there can be harms nobody, and is buried when it is gone") {
  CoreBench bench;
  bench.start_swarm(3);
  PeerRecord last = signed_record(bench, 9);
  last.key.incarnation = ~std::uint64_t{0};
  last.signature = StandInSeal(PeerId{9}).sign(sealed_text(bench.run_identity.run, last));
  bench.deliver({PeerId{9}, PeerId{2}, Hello{last, bench.run_identity}});
  CHECK(bench.core(2).stats().peers_alive == 3);  // it is believed
  bench.run(seconds(20));
  CHECK(bench.node(1).refused.empty());
  bench.run(minutes(3));  // it never says anything again
  for (std::uint64_t id = 1; id <= 3; ++id) {
    CHECK(bench.core(id).stats().peers_alive == 2);
    for (const PeerRecord& record : bench.core(id).peers()) {
      CHECK((record.key.id != PeerId{9} || record.health != Health::kAlive));
    }
    bench.core(id).assert_invariants();
  }
  // And of itself nobody is told such a thing by another.
  PeerRecord forged = bench.node(1).identity.self;
  forged.key.incarnation = ~std::uint64_t{0};
  bench.deliver({PeerId{3}, PeerId{2}, Hello{forged, bench.run_identity}});
  bench.run(seconds(20));
  CHECK(bench.core(1).self().key.incarnation < ~std::uint64_t{0} / 2);
  CHECK(bench.core(2).stats().peers_alive >= 1);
  for (const PeerRecord& record : bench.core(2).peers()) {
    CHECK((record.key.id != PeerId{1} || record.key.incarnation < ~std::uint64_t{0} / 2));
  }
}

}  // namespace starling::gossip
