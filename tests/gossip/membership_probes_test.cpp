#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "gossip/membership.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Letter = CoreBench::Letter;

std::size_t deaths_seen(CoreBench& bench, std::uint64_t peers) {
  std::size_t deaths = 0;
  for (std::uint64_t id = 1; id <= peers; ++id) {
    for (const PeerChanged& event : bench.node(id).changed) {
      deaths += event.record.health == Health::kDead ? 1 : 0;
    }
  }
  return deaths;
}

// It sleeps, and then finds its letters; as in a process, its timer wins the race against them. Its
// health score in between.
std::uint64_t nap(CoreBench& bench, std::uint64_t sleeper, Duration duration) {
  std::vector<Letter> late;
  bench.passes = [&](const Letter& letter) {
    if (letter.to != PeerId{sleeper}) return true;
    late.push_back(letter);
    return false;
  };
  auto asleep = std::move(bench.node(sleeper).core);
  bench.run(duration);
  bench.node(sleeper).core = std::move(asleep);
  bench.passes = [](const Letter&) { return true; };
  bench.core(sleeper).on_deadline(bench.now);
  const std::uint64_t score = bench.core(sleeper).stats().health_score;
  for (const Letter& letter : late) bench.deliver(letter);
  return score;
}

}  // namespace

TEST_CASE("a peer that one cannot reach but others can is not doubted") {
  CoreBench bench;
  bench.start_swarm(6);
  bench.passes = [](const Letter& letter) {
    return !(letter.from == PeerId{1} && letter.to == PeerId{2}) &&
           !(letter.from == PeerId{2} && letter.to == PeerId{1});
  };
  bench.node(1).changed.clear();
  bench.node(2).changed.clear();
  bench.run(minutes(5));
  CHECK(deaths_seen(bench, 6) == 0);
  for (std::uint64_t id = 1; id <= 6; ++id) CHECK(bench.core(id).stats().peers_alive == 5);
}

TEST_CASE("who is asked about a peer it cannot reach either says so") {
  CoreBench bench;
  bench.start_swarm(3);
  const PeerRecord target = signed_record(bench, 9);
  std::vector<PingAnswer> answers;
  bench.passes = [&](const Letter& letter) {
    if (is<PingAnswer>(letter.message)) answers.push_back(std::get<PingAnswer>(letter.message));
    return true;
  };
  bench.deliver({PeerId{1}, PeerId{2}, PingRequest{77, target}});
  CHECK(answers.empty());
  bench.run(bench.config.suspect_after);
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].nonce == 77);
  CHECK(answers[0].target == PeerId{9});
  CHECK_FALSE(answers[0].reached);
  answers.clear();
  PeerRecord other = target;
  other.key.id = PeerId{3};
  other.address = CoreBench::address_of(PeerId{3});
  bench.deliver({PeerId{1}, PeerId{2}, PingRequest{78, other}});
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].reached);
}

TEST_CASE("a peer cut off from answers stops accusing quickly and knows that it is slow") {
  CoreBench bench;
  bench.start_swarm(8);
  CHECK(bench.core(1).stats().health_score == 0);
  // Peer 1 hears nothing any more, neither targets nor helpers.
  bench.passes = [](const Letter& letter) { return letter.to != PeerId{1}; };
  bench.run(seconds(12));
  CHECK(bench.core(1).stats().health_score >= 4);
  bench.passes = [](const Letter&) { return true; };
  bench.run(minutes(2));
  CHECK(bench.core(1).stats().health_score == 0);
  for (std::uint64_t id = 1; id <= 8; ++id) CHECK(bench.core(id).stats().peers_alive == 7);
}

TEST_CASE("peers that are starved of time again and again accuse no healthy one to death") {
  CoreBench bench;
  bench.start_swarm(8);
  for (std::uint64_t id = 1; id <= 8; ++id) bench.node(id).changed.clear();
  Rng rng(4);
  for (int naps = 0; naps < 60; ++naps) {
    nap(bench, 8, seconds(2) + milliseconds(rng.below(3000)));
    bench.run(seconds(1));
  }
  CHECK(deaths_seen(bench, 8) == 0);
}

TEST_CASE("a peer that gets the processor in slices knows that it is slow") {
  CoreBench bench;
  bench.start_swarm(8);
  Rng rng(5);
  std::uint64_t score_most = 0;
  // It is never late by as much as a pause, and hears everything between two naps.
  for (int naps = 0; naps < 60; ++naps) {
    score_most = std::max(score_most, nap(bench, 8, milliseconds(300 + rng.below(600))));
    bench.run(milliseconds(100));
  }
  CHECK(score_most >= 1);
  bench.run(minutes(2));
  CHECK(bench.core(8).stats().health_score == 0);
  for (std::uint64_t id = 1; id <= 8; ++id) CHECK(bench.core(id).stats().peers_alive == 7);
}

TEST_CASE("a rumor of the death of somebody just heard is told to it and not believed") {
  CoreBench bench;
  bench.start_swarm(4);
  bench.run(seconds(20));
  for (std::uint64_t id = 1; id <= 4; ++id) bench.node(id).changed.clear();
  Records lie;
  PeerRecord victim{{PeerId{2}, 1 << kRefutationBits},
                    CoreBench::address_of(PeerId{2}),
                    Health::kDead,
                    true,
                    PeerId{3},
                    0};
  REQUIRE(lie.records.try_push(victim));
  bench.deliver({PeerId{3}, PeerId{1}, lie});
  bench.run(seconds(5));
  CHECK(deaths_seen(bench, 4) == 0);
  for (std::uint64_t id = 1; id <= 4; ++id) CHECK(bench.core(id).stats().peers_alive == 3);
}

TEST_CASE("a crash is noticed within the stated bound, sooner where others confirm it") {
  for (const std::uint64_t peers : {2, 3, 5, 10, 30}) {
    CAPTURE(peers);
    CoreBench bench;
    bench.start_swarm(peers);
    bench.run(minutes(2));
    bench.crash(peers);
    bench.run(seconds(30));
    for (std::uint64_t id = 1; id < peers; ++id) CHECK(bench.core(id).stats().peers_dead == 1);
  }
}

TEST_CASE("lines are bounded, and the rest of the swarm is still known") {
  CoreBench bench;
  bench.config.connections_max = 8;
  bench.start_swarm(80);
  bench.run(minutes(1));
  for (std::uint64_t id = 1; id <= 80; ++id) {
    CAPTURE(id);
    CHECK(bench.core(id).stats().peers_alive == 79);
    // Lines used within the last ten seconds are not closed: some more than the limit.
    CHECK(bench.core(id).stats().lines_open <= 8 + 40);
    const auto& node = bench.node(id);
    CHECK(node.lines.size() == bench.core(id).stats().lines_open);
    CHECK(node.disconnects > 10);
  }
  CHECK(deaths_seen(bench, 80) == 0);
}

TEST_CASE("a swarm larger than a view stays connected and estimates its size") {
  CoreBench bench;
  bench.config.peers_max = 24;
  bench.config.connections_max = 6;
  bench.start_swarm(60);
  bench.run(minutes(4));
  double mean = 0;
  std::set<PeerId> known;
  for (std::uint64_t id = 1; id <= 60; ++id) {
    CAPTURE(id);
    CHECK(bench.core(id).peers().size() == 24);
    mean += bench.core(id).stats().swarm_size / 60;
    for (const PeerRecord& record : bench.core(id).peers()) known.insert(record.key.id);
  }
  CHECK(known.size() == 60);
  CHECK(mean == doctest::Approx(60).epsilon(0.35));
  CHECK(deaths_seen(bench, 60) == 0);
}

TEST_CASE("whoever denied a suspicion and is doubted again has all the time to deny that, too") {
  PeerId accuser{2};
  SUBCASE("by somebody") {}
  SUBCASE("by nobody in particular") { accuser = {}; }
  CoreBench bench;
  bench.start_swarm(2);
  constexpr PeerId kBusy{50};
  const auto tell = [&](std::uint64_t refutations, Health health) {
    PeerRecord record = signed_record(bench, kBusy.value);
    record.key = record_key({kBusy, 1}, refutations);
    record.dialable = false;
    record.signature = StandInSeal(kBusy).sign(sealed_text(bench.run_identity.run, record));
    record.health = health;
    if (health == Health::kSuspect) record.accuser = accuser;
    Records rumor;
    REQUIRE(rumor.records.try_push(record));
    bench.deliver({PeerId{2}, PeerId{1}, rumor});
  };
  const auto dead = [&] { return bench.core(1).stats().peers_dead; };
  tell(0, Health::kAlive);
  tell(0, Health::kSuspect);
  bench.run(bench.config.dead_after - milliseconds(500));
  tell(1, Health::kSuspect);
  bench.run(bench.config.dead_after - milliseconds(500));
  CHECK(dead() == 0);
  tell(1, Health::kSuspect);  // the same suspicion, said once more
  bench.run(seconds(1));
  CHECK(dead() == 1);
}

TEST_CASE("another accuser does not set a deadline in the past") {
  CoreBench bench;
  bench.start_swarm(12);
  bench.passes = [](const Letter& letter) { return letter.from != PeerId{9}; };
  // Peer 1 alone doubts it for long enough that three accusers would have given it up by then.
  Records rumor;
  PeerRecord doubted{{PeerId{9}, 1 << kRefutationBits},
                     CoreBench::address_of(PeerId{9}),
                     Health::kSuspect,
                     true,
                     PeerId{2},
                     0};
  REQUIRE(rumor.records.try_push(doubted));
  bench.deliver({PeerId{2}, PeerId{1}, rumor});
  bench.passes = [](const Letter& letter) {
    return letter.from != PeerId{9} && letter.to != PeerId{1};
  };
  bench.run(seconds(12));
  for (const std::uint64_t accuser : {3, 4, 5}) {
    Records more;
    doubted.accuser = PeerId{accuser};
    REQUIRE(more.records.try_push(doubted));
    bench.core(1).on_message(bench.now, PeerId{accuser}, more);
    REQUIRE(bench.core(1).next_deadline());
    CHECK(*bench.core(1).next_deadline() >= bench.now);
  }
}

TEST_CASE("a peer that nobody can dial is given up by all once those it spoke to hear it no more") {
  CoreBench bench;
  bench.start_swarm(7);
  bench.dialable = false;
  bench.start(8);
  bench.join(8, 1);
  bench.run(minutes(2));
  CHECK(deaths_seen(bench, 8) == 0);
  bench.crash(8);
  bench.run(minutes(1));
  for (std::uint64_t id = 1; id < 8; ++id) CHECK(bench.core(id).stats().peers_dead == 1);
}

TEST_CASE("a doubt makes nobody's last sign of life younger, and others confirm it") {
  constexpr std::uint64_t kPeers = 6;
  constexpr PeerId kGone{50};
  CoreBench bench;
  bench.start_swarm(kPeers);
  PeerRecord record = signed_record(bench, kGone.value);
  record.dialable = false;
  record.signature = StandInSeal(kGone).sign(sealed_text(bench.run_identity.run, record));
  Records rumor;
  REQUIRE(rumor.records.try_push(record));
  for (std::uint64_t id = 2; id <= kPeers; ++id) bench.deliver({PeerId{1}, PeerId{id}, rumor});
  bench.deliver({PeerId{2}, PeerId{1}, rumor});
  const Instant last_sign = bench.now;
  std::set<PeerId> accusers;
  bench.passes = [&](const Letter& letter) {
    const auto* ping = std::get_if<Ping>(&letter.message);
    if (ping == nullptr) return true;
    for (const PeerRecord& told : ping->records) {
      if (told.key.id != kGone || told.health != Health::kSuspect) continue;
      CHECK(seconds(told.age_s + 1) >= bench.now - last_sign);
      accusers.insert(told.accuser);
    }
    return true;
  };
  bench.run(PeerTable::kStale / 3 + seconds(20));
  CHECK(accusers.size() > 1);
  for (std::uint64_t id = 1; id <= kPeers; ++id) CHECK(bench.core(id).stats().peers_dead == 1);
}

TEST_CASE("a peer that cannot be dialled is not given up by those it has no line to") {
  constexpr std::uint64_t kPeers = 40;
  CoreBench bench;
  bench.config.connections_max = 4;
  bench.start_swarm(kPeers - 1);
  bench.dialable = false;
  bench.start(kPeers);
  bench.join(kPeers, 1);
  std::uint64_t kept_back = 0;
  bench.passes = [&](const Letter& letter) {
    const bool answer = is<Welcome>(letter.message);  // goes back over the line of the greeting
    const bool has_way = answer || bench.node(kPeers).lines.count(letter.from) != 0;
    if (letter.to != PeerId{kPeers} || has_way) return true;
    ++kept_back;
    return false;
  };
  bench.run(minutes(30));
  CHECK(kept_back > 0);
  CHECK(deaths_seen(bench, kPeers) == 0);
  for (std::uint64_t id = 1; id <= kPeers; ++id) {
    CHECK(bench.core(id).stats().peers_alive == kPeers - 1);
  }
}

TEST_CASE("both halves of a split swarm say so, and say when they are whole again") {
  CoreBench bench;
  bench.start_swarm(12);
  bench.run(minutes(2));
  bench.passes = [](const Letter& letter) { return letter.from.value % 2 == letter.to.value % 2; };
  bench.run(minutes(3));
  for (std::uint64_t id = 1; id <= 12; ++id) {
    CAPTURE(id);
    REQUIRE(bench.node(id).swarm_changes.size() == 1);
    CHECK(bench.node(id).swarm_changes[0].change == SwarmChange::kSplit);
    CHECK(bench.node(id).swarm_changes[0].alive == 5);
    CHECK(bench.node(id).swarm_changes[0].moved == 6);
  }
  bench.passes = [](const Letter&) { return true; };
  bench.run(minutes(2));
  for (std::uint64_t id = 1; id <= 12; ++id) {
    CAPTURE(id);
    REQUIRE(bench.node(id).swarm_changes.size() == 2);
    CHECK(bench.node(id).swarm_changes[1].change == SwarmChange::kHealed);
    CHECK(bench.core(id).stats().peers_alive == 11);
  }
}

TEST_CASE("after a split the offers' clip radius stays what it was before") {
  CoreBench bench;
  bench.start_swarm(6);
  const FragmentState usual{.cold = false, .clip_radius = 2};
  const FragmentState apart{.cold = false, .clip_radius = 60};
  for (std::uint64_t id = 1; id <= 6; ++id) {
    for (const auto fragment : {std::uint16_t{0}, std::uint16_t{1}}) {
      bench.core(id).on_fragment_state(bench.now, FragmentId{fragment}, usual);
    }
  }
  bench.passes = [](const Letter& letter) { return letter.from.value % 2 == letter.to.value % 2; };
  bench.run(minutes(3));
  std::vector<float> offered;
  bench.passes = [&](const Letter& letter) {
    if (const auto* accept = std::get_if<Accept>(&letter.message)) {
      offered.push_back(accept->clip_radius);
    }
    return true;
  };
  bench.run(minutes(2));
  for (std::uint64_t id = 1; id <= 6; ++id) bench.publish(id, 0, apart);
  bench.run(seconds(30));
  REQUIRE_FALSE(offered.empty());
  for (const float radius : offered) CHECK(radius == 2);
  offered.clear();
  bench.run(GentleMerge::kMost);
  for (std::uint64_t id = 1; id <= 6; ++id) bench.publish(id, 0, apart);
  bench.run(seconds(30));
  REQUIRE_FALSE(offered.empty());
  for (const float radius : offered) CHECK(radius == 60);
}

}  // namespace starling::gossip
