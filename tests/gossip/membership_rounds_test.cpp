#include "gossip/membership.h"

#include <doctest/doctest.h>

#include <utility>

#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

Health health_of(Core& core, std::uint64_t id) {
  for (const PeerRecord& record : core.peers()) {
    if (record.key.id == PeerId{id}) return record.health;
  }
  FAIL("peer is not known");
  return Health::kLeft;
}

std::size_t alive(Core& core) { return static_cast<std::size_t>(core.stats().peers_alive); }

}  // namespace

TEST_CASE("peers that know one seed find everybody") {
  CoreBench bench;
  bench.start_swarm(20);
  for (std::uint64_t id = 1; id <= 20; ++id) {
    CAPTURE(id);
    CHECK(alive(bench.core(id)) == 19);
  }
  bench.run(minutes(2));
  for (std::uint64_t id = 1; id <= 20; ++id) CHECK(alive(bench.core(id)) == 19);
}

TEST_CASE("a seed that does not answer is greeted for ever") {
  CoreBench bench;
  bench.start(1);
  bench.join(1, 2);
  bench.run(minutes(10));
  CHECK(bench.node(1).greetings.size() > 80);
  bench.start(2);
  bench.run(seconds(10));
  CHECK(alive(bench.core(1)) == 1);
  CHECK(alive(bench.core(2)) == 1);
}

TEST_CASE("a dead peer is noticed, left out and found again after its restart") {
  CoreBench bench;
  bench.start_swarm(5);
  bench.crash(3);
  bench.run(bench.config.suspect_after + bench.config.dead_after + seconds(6));
  for (const std::uint64_t id : {1, 2, 4, 5}) {
    CAPTURE(id);
    CHECK(health_of(bench.core(id), 3) == Health::kDead);
  }
  bench.start(3, 2);
  bench.join(3, 1);
  bench.run(seconds(10));
  for (const std::uint64_t id : {1, 2, 4, 5}) CHECK(health_of(bench.core(id), 3) == Health::kAlive);
  CHECK(alive(bench.core(3)) == 4);
}

TEST_CASE("a peer that was cut off and declared dead denies it and comes back") {
  CoreBench bench;
  bench.start_swarm(4);
  bench.passes = [](const CoreBench::Letter& letter) {
    return letter.from != PeerId{4} && letter.to != PeerId{4};
  };
  bench.run(minutes(2));
  CHECK(health_of(bench.core(1), 4) == Health::kDead);
  CHECK(health_of(bench.core(4), 1) == Health::kDead);
  bench.passes = [](const CoreBench::Letter&) { return true; };
  bench.run(seconds(30));
  for (std::uint64_t id = 1; id <= 4; ++id) {
    CAPTURE(id);
    CHECK(alive(bench.core(id)) == 3);
  }
}

TEST_CASE("who greets from the dead and is silent again is not written to a minute later") {
  constexpr std::uint64_t kPeers = 90, kCrashed = 10;
  CoreBench bench;
  bench.start_swarm(kPeers);
  std::vector<Hello> greetings;
  for (std::uint64_t id = kPeers - kCrashed + 1; id <= kPeers; ++id) {
    greetings.push_back({bench.core(id).self(), bench.run_identity});
    bench.crash(id);
  }
  bench.run(minutes(2));
  REQUIRE(bench.core(1).stats().peers_dead == kCrashed);
  for (const Hello& hello : greetings) bench.deliver({hello.self.key.id, PeerId{1}, hello});
  bench.run(12 * bench.config.suspect_after);
  int written = 0;
  bench.passes = [&written](const CoreBench::Letter& letter) {
    const bool to_dead = letter.from == PeerId{1} && letter.to.value > kPeers - kCrashed;
    written += to_dead && !is_greeting(letter.message) ? 1 : 0;
    return true;
  };
  bench.run(minutes(2));
  CHECK(bench.core(1).stats().peers_dead == kCrashed);
  CHECK(written == 0);
}

TEST_CASE("half the swarm behind a partition is whole again soon after it ends") {
  CoreBench bench;
  bench.start_swarm(12);
  bench.passes = [](const CoreBench::Letter& letter) {
    return letter.from.value % 2 == letter.to.value % 2;
  };
  bench.run(minutes(5));
  CHECK(alive(bench.core(1)) == 5);
  bench.passes = [](const CoreBench::Letter&) { return true; };
  bench.run(seconds(60));
  for (std::uint64_t id = 1; id <= 12; ++id) {
    CAPTURE(id);
    CHECK(alive(bench.core(id)) == 11);
  }
}

TEST_CASE("a peer that leaves says so and is gone at once") {
  CoreBench bench;
  bench.start_swarm(4);
  bench.core(2).on_leave(bench.now);
  bench.settle();
  for (const std::uint64_t id : {1, 3, 4}) CHECK(health_of(bench.core(id), 2) == Health::kLeft);
  CHECK_FALSE(bench.core(2).next_deadline());
  bench.run(minutes(1));
  for (const std::uint64_t id : {1, 3, 4}) CHECK(health_of(bench.core(id), 2) == Health::kLeft);
}

TEST_CASE("the swarm's tokens reach everybody and survive the death of who trained them") {
  CoreBench bench;
  bench.start_swarm(6);
  for (std::uint64_t id = 1; id <= 6; ++id) bench.core(id).on_progress(bench.now, 1000 * id, 0);
  bench.run(seconds(20));
  for (std::uint64_t id = 1; id <= 6; ++id) {
    CHECK(bench.core(id).swarm_tokens(bench.now) == doctest::Approx(21000));
  }
  bench.crash(6);
  bench.run(minutes(2));
  CHECK(bench.core(1).swarm_tokens(bench.now) == doctest::Approx(21000));
}

TEST_CASE("peers that nobody can dial are greeted on trial alone, and never accused") {
  CoreBench bench;
  bench.start(1);
  bench.walled = true;
  for (const std::uint64_t id : {2, 3}) {
    bench.start(id);
    bench.join(id, 1);
  }
  bench.run(minutes(2));
  for (const std::uint64_t id : {1, 2, 3}) {
    CAPTURE(id);
    CHECK(alive(bench.core(id)) == 2);
    for (const PeerChanged& event : bench.node(id).changed) {
      CHECK(event.record.health == Health::kAlive);
    }
    const auto& greetings = bench.node(id).greetings;
    const auto trials = std::count_if(greetings.begin(), greetings.end(), [](const Greet& greet) {
      return id_of(greet.address.key) != PeerId{1};
    });
    CHECK(trials <= minutes(2) / Membership::kTrialEvery);
  }
}

TEST_CASE("a peer that was reached tells everybody and is greeted then") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.dialable = false;
  bench.start(3);
  bench.join(3, 1);
  CHECK(!bench.core(3).self().dialable);
  const PeerKey before = bench.core(3).self().key;
  bench.core(3).on_reached(bench.now, Reach::kAnywhere);
  CHECK(bench.core(3).self().dialable);
  CHECK(process_of(bench.core(3).self()) == PeerKey{PeerId{3}, 1});  // exchanges do not notice
  CHECK(bench.core(3).self().key > before);
  bench.run(seconds(20));
  for (const std::uint64_t id : {1, 2}) {
    for (const PeerRecord& record : bench.core(id).peers()) CHECK(record.dialable);
  }
}

TEST_CASE("a claim to be reached goes as far as the swarm does, or is not made") {
  CoreBench bench;
  bench.dialable = false;
  const auto settles = [&bench] { bench.run(bench.config.ping_interval * 12); };
  const auto is_dialable = [&bench] { return bench.core(1).self().dialable; };
  bench.host = "192.168.1.1";
  bench.start(1);
  bench.core(1).on_reached(bench.now, Reach::kThisMachine);
  CHECK(!is_dialable());  // not even as far as it says itself
  bench.core(1).on_reached(bench.now, Reach::kThisNetwork);
  CHECK(is_dialable());
  bench.host = "192.168.1.2";
  bench.start(2);
  bench.host.clear();  // a name
  bench.start(3);
  for (const std::uint64_t id : {2, 3}) bench.join(id, 1);
  settles();
  CHECK(is_dialable());
  bench.host = "9.9.9.9";
  bench.start(4);
  bench.join(4, 1);
  settles();
  CHECK(!is_dialable());
  for (const PeerRecord& record : bench.core(4).peers()) {
    if (record.key.id == PeerId{1}) CHECK(!record.dialable);
  }
  bench.core(1).on_reached(bench.now, Reach::kAnywhere);
  CHECK(is_dialable());
  bench.core(1).on_reached(bench.now, Reach::kThisNetwork);
  settles();
  CHECK(!is_dialable());
  bench.core(4).on_leave(bench.now);
  settles();
  CHECK(!is_dialable());  // it may come back
  bench.run(Membership::kFarthestKept);
  CHECK(is_dialable());
  bench.core(1).on_reached(bench.now, Reach::kUnspecified);
  settles();
  CHECK(!is_dialable());
}

TEST_CASE("a claim at an address for all, or a name, needs any caller from another machine") {
  for (const char* host : {"9.9.9.9", "seed.example.org"}) {
    CoreBench bench;
    bench.dialable = false;
    bench.host = host;
    bench.start(1);
    bench.core(1).on_reached(bench.now, Reach::kThisMachine);
    CHECK(!bench.core(1).self().dialable);
    bench.core(1).on_reached(bench.now, Reach::kThisNetwork);
    CHECK(bench.core(1).self().dialable);
  }
}

TEST_CASE("peers that nobody says to be dialable meet all the same where they can be dialled") {
  CoreBench bench;
  bench.dialable = false;
  for (std::uint64_t id = 1; id <= 6; ++id) bench.start(id);
  for (std::uint64_t id = 2; id <= 6; ++id) bench.join(id, 1);
  bench.run(Membership::kTrialEvery * 12);
  for (std::uint64_t id = 1; id <= 6; ++id) {
    CHECK(!bench.core(id).self().dialable);
    CHECK(bench.core(id).stats().partners == 5);
  }
}

TEST_CASE("a partner that others have not dialled is tried again and again") {
  CoreBench bench;
  bench.start(1);
  bench.dialable = false;
  bench.start(2);
  bench.join(2, 1);
  std::size_t tries = bench.node(1).connects.size();
  CHECK(tries > 0);
  CHECK(!bench.node(1).connects.back().dialable);
  bench.run(Membership::kDialTestEvery * 3);
  CHECK(bench.node(1).connects.size() >= tries + 2);
  tries = bench.node(1).connects.size();
  bench.core(2).on_reached(bench.now, Reach::kAnywhere);
  bench.run(seconds(10));
  CHECK(bench.node(1).connects.back().dialable);
  tries = bench.node(1).connects.size();
  bench.run(Membership::kDialTestEvery * 3);
  CHECK(bench.node(1).connects.size() == tries);
}

TEST_CASE("a partner that is trusted no more is let go and asked again later") {
  CoreBench bench;
  bench.start_swarm(2);
  const auto refusal = [&](RefuseReason reason) {
    return Refuse{reason, bench.run_identity, CoreBench::address_of(PeerId{2})};
  };
  // What it agreed on once it cannot take back, but trust it can.
  bench.deliver({PeerId{2}, PeerId{1}, refusal(RefuseReason::kModel)});
  CHECK(bench.node(1).refused.empty());
  bench.crash(2);
  bench.deliver({PeerId{2}, PeerId{1}, refusal(RefuseReason::kNotAllowed)});
  REQUIRE(bench.node(1).refused.size() == 1);
  CHECK(bench.node(1).refused[0].reason == RefuseReason::kNotAllowed);
  const std::size_t greetings = bench.node(1).greetings.size();
  bench.run(Membership::kDistrustedFor - seconds(2));
  CHECK(bench.node(1).greetings.size() == greetings);
  CHECK(health_of(bench.core(1), 2) == Health::kAlive);  // it refused, so it lives
  bench.run(seconds(10));
  CHECK(bench.node(1).greetings.size() > greetings);
}

TEST_CASE("views that stay different as allow-lists do are soon compared no more than others") {
  CoreBench bench;
  bench.start_swarm(8);
  const std::vector<PeerId> all_but_last{PeerId{1}, PeerId{2}, PeerId{3}, PeerId{4},
                                         PeerId{5}, PeerId{6}, PeerId{7}};
  for (std::uint64_t id = 2; id <= 7; ++id) bench.core(id).on_members(bench.now, all_but_last);
  int comparisons = 0;  // of the one that has no list
  bench.passes = [&](const CoreBench::Letter& letter) {
    const auto* digest = std::get_if<Digest>(&letter.message);
    if (digest != nullptr && !digest->answer && letter.from == PeerId{1}) ++comparisons;
    return true;
  };
  bench.run(seconds(400));
  CHECK(comparisons >= 400 / 10);
  CHECK(comparisons <= 400 / 5);
  CHECK(bench.core(1).peers().size() == 7);
}

TEST_CASE("peers without a common version refuse each other and the highest common one is spoken") {
  CHECK(common_version({1, 3}, {2, 5}) == 3);
  CHECK(common_version({2, 5}, {1, 2}) == 2);
  CHECK(!common_version({1, 1}, {2, 3}).has_value());
  CoreBench bench;
  bench.run_identity.versions = {1, 2};
  bench.start(1);
  bench.run_identity.versions = {2, 3};
  bench.start(2);
  bench.run_identity.versions = {3, 4};
  bench.start(3);
  bench.join(1, 2);
  bench.join(3, 2);
  bench.join(1, 3);
  CHECK(bench.node(1).connects.back().version == 2);
  CHECK(bench.node(3).connects.back().version == 3);
  REQUIRE(bench.node(1).refused.size() == 1);
  CHECK(bench.node(1).refused[0].reason == RefuseReason::kProtocol);
  CHECK(bench.node(1).refused[0].theirs.versions == Versions{3, 4});
}

}  // namespace starling::gossip
