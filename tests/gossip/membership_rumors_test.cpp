// What a member that lies about others can do: nothing to what they signed, and no more than make
// them deny the rest.
#include <doctest/doctest.h>

#include <algorithm>

#include "gossip/greeting_limit.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Letter = CoreBench::Letter;

const PeerId kLiar{5};
const PeerId kVictim{2};

void say(CoreBench& bench, const PeerRecord& lie) {
  Records message;
  REQUIRE(message.records.try_push(lie));
  for (std::uint64_t id = 1; id <= 4; ++id) bench.deliver({kLiar, PeerId{id}, message});
}

const PeerRecord* find(const std::vector<PeerRecord>& records, PeerId id) {
  const auto found = std::find_if(records.begin(), records.end(),
                                  [id](const PeerRecord& record) { return record.key.id == id; });
  return found == records.end() ? nullptr : &*found;
}

// Everybody but the liar still knows the victim as it is.
void check_unmoved(CoreBench& bench) {
  const PeerRecord truth = bench.core(kVictim.value).self();
  for (const std::uint64_t id : {1, 3, 4}) {
    const auto records = bench.core(id).peers();
    const PeerRecord* known = find(records, kVictim);
    REQUIRE(known != nullptr);
    CHECK(known->address == truth.address);
    CHECK(known->dialable == truth.dialable);
    CHECK(process_of(*known) == process_of(truth));
    CHECK(known->health == Health::kAlive);
  }
}

}  // namespace

TEST_CASE("a life that its subject never began is not believed, and its inventor is muted") {
  CoreBench bench;
  bench.start_swarm(5);
  PeerRecord lie = bench.core(kVictim.value).self();
  SUBCASE("a later process") { lie.key = record_key({kVictim, 1000}, 0); }
  SUBCASE("the last of all refutations") {
    lie.key = record_key({kVictim, 1}, (1U << kRefutationBits) - 1);
    lie.health = Health::kDead;
  }
  SUBCASE("another address") {
    lie.key.incarnation += 1;
    lie.address.control_port = 1;
  }
  SUBCASE("a farewell") { lie.health = Health::kLeft; }
  SUBCASE("a stranger") {
    lie = {record_key({PeerId{77}, 1}, 0), CoreBench::address_of(PeerId{77})};
  }
  say(bench, lie);
  for (const std::uint64_t id : {1, 3, 4}) {
    CAPTURE(id);
    CHECK(forged(bench, id) == 1);
    CHECK_FALSE(bench.node(id).muted.empty());
    CHECK(find(bench.core(id).peers(), PeerId{77}) == nullptr);
  }
  bench.run(seconds(10));
  check_unmoved(bench);
  CHECK(bench.core(1).stats().peers_alive == 4);  // the muted are not accused of being dead
}

TEST_CASE("a signed record under another rumor changes nothing that was signed") {
  CoreBench bench;
  bench.start_swarm(5);
  PeerRecord lie = bench.core(kVictim.value).self();
  lie.address.control_port = 1;
  lie.dialable = false;
  lie.health = Health::kSuspect;
  lie.accuser = kLiar;
  say(bench, lie);
  bench.run(seconds(10));
  check_unmoved(bench);
  CHECK(forged(bench, 1) == 0);  // it may have been garbled by whoever told the liar
}

TEST_CASE("a liar that names a peer dead again and again only makes it deny") {
  CoreBench bench;
  bench.start_swarm(5);
  for (std::uint64_t id = 1; id <= 5; ++id) bench.node(id).changed.clear();
  const std::uint64_t denials_before = refutations_of(bench.core(kVictim.value).self());
  for (int i = 0; i < 100; ++i) {
    PeerRecord lie = bench.core(kVictim.value).self();
    lie.health = Health::kDead;
    lie.accuser = PeerId{100ULL + static_cast<unsigned>(i)};
    say(bench, lie);
    bench.run(milliseconds(200));
  }
  for (std::uint64_t id = 1; id <= 4; ++id) {
    for (const PeerChanged& change : bench.node(id).changed) {
      CHECK(change.record.health != Health::kDead);
    }
  }
  // At most two a second: what refutations there are last for months.
  CHECK(refutations_of(bench.core(kVictim.value).self()) - denials_before <= 41);
  bench.run(seconds(5));
  check_unmoved(bench);
}

TEST_CASE("views grow equal though a peer signs two records under one incarnation") {
  CoreBench bench;
  bench.start_swarm(5);
  PeerRecord one = bench.core(kLiar.value).self();
  one.key.incarnation += 1;
  PeerRecord other = one;
  SUBCASE("forwarding") { other.forwards = true; }
  SUBCASE("other relays") { REQUIRE(other.relays.try_push(kVictim)); }
  SUBCASE("something that only a later version knows") { REQUIRE(other.extension.try_push(1)); }
  SUBCASE("another address") { other.address.control_port = 7003; }
  SUBCASE("doubted in one of them") {
    other.forwards = true;
    other.health = Health::kSuspect;
    other.accuser = kVictim;
  }
  for (PeerRecord* record : {&one, &other}) {
    record->signature = StandInSeal(kLiar).sign(sealed_text(bench.run_identity.run, *record));
  }
  for (std::uint64_t id = 1; id <= 4; ++id) {
    Records message;
    REQUIRE(message.records.try_push(id <= 2 ? one : other));
    bench.core(id).on_message(bench.now, kLiar, message);
  }
  bench.run(seconds(30));
  const auto as_told = bench.core(1).peers();
  for (std::uint64_t id = 2; id <= 4; ++id) {
    CAPTURE(id);
    const auto records = bench.core(id).peers();
    CHECK(find(records, kLiar)->signature == find(as_told, kLiar)->signature);
  }
  int told = 0;
  bench.passes = [&told](const Letter& letter) {
    told += is<Records>(letter.message) && letter.from != kLiar && letter.to != kLiar ? 1 : 0;
    return true;
  };
  bench.run(seconds(30));
  CHECK(told == 0);
}

TEST_CASE("what nobody signed does not win against what its subject said") {
  CoreBench bench;
  bench.start_swarm(5);
  for (std::uint8_t byte = 0; byte < 16; ++byte) {
    PeerRecord lie = bench.core(kVictim.value).self();
    REQUIRE(lie.extension.try_push(byte));
    lie.signature[byte] ^= 1;
    say(bench, lie);
  }
  check_unmoved(bench);
  const auto records = bench.core(1).peers();
  CHECK(find(records, kVictim)->extension.empty());
}

TEST_CASE("an introduction that its own sender did not sign is turned down") {
  CoreBench bench;
  bench.start_swarm(3);
  Hello hello{bench.core(3).self(), bench.run_identity};
  hello.self.key.incarnation += 1;
  bench.deliver({PeerId{3}, PeerId{1}, hello});
  CHECK(forged(bench, 1) == 1);
  hello.self = bench.core(3).self();
  bench.deliver({PeerId{3}, PeerId{2}, hello});
  CHECK(forged(bench, 2) == 0);
}

TEST_CASE("what a later version has a peer say of itself is passed on as it was signed") {
  CoreBench bench;
  bench.start_swarm(4);
  PeerRecord next = signed_record(bench, 77);
  for (std::uint8_t byte = 1; byte <= 3; ++byte) REQUIRE(next.extension.try_push(byte));
  next.signature = StandInSeal(PeerId{77}).sign(sealed_text(bench.run_identity.run, next));
  Records message;
  REQUIRE(message.records.try_push(next));
  bench.deliver({PeerId{2}, PeerId{1}, message});
  bench.run(seconds(20));
  for (const std::uint64_t id : {1, 3, 4}) {
    CAPTURE(id);
    const auto records = bench.core(id).peers();
    const PeerRecord* known = find(records, PeerId{77});
    REQUIRE(known != nullptr);
    CHECK(known->extension == next.extension);
    CHECK(forged(bench, id) == 0);
  }
}

TEST_CASE("a stranger whose greeting was forged is not checked again for a while") {
  CoreBench bench;
  bench.start_swarm(2);
  const Hello truth{signed_record(bench, 77), bench.run_identity};
  Hello lie = truth;
  lie.self.signature = {};
  for (int i = 0; i < 1000; ++i) bench.deliver({PeerId{77}, PeerId{1}, lie});
  CHECK(forged(bench, 1) == 1);
  bench.deliver({PeerId{77}, PeerId{1}, truth});
  CHECK(find(bench.core(1).peers(), PeerId{77}) == nullptr);
  bench.run(GreetingLimit::kBarredFor);
  bench.deliver({PeerId{77}, PeerId{1}, truth});
  CHECK(find(bench.core(1).peers(), PeerId{77}) != nullptr);
}

TEST_CASE("keys without end cost their reader a bounded number of signatures") {
  CoreBench bench;
  bench.start_swarm(2);
  for (std::uint64_t id = 1000; id < 4000; ++id) {
    Hello lie{signed_record(bench, id), bench.run_identity};
    lie.self.signature = {};
    bench.deliver({PeerId{id}, PeerId{1}, lie});
  }
  CHECK(forged(bench, 1) == GreetingLimit::kAtOnce);
  // Whoever has been met is not one of them.
  Hello again{bench.core(2).self(), bench.run_identity};
  again.self.key.incarnation += 1;
  again.self.signature =
      StandInSeal(PeerId{2}).sign(sealed_text(bench.run_identity.run, again.self));
  bench.deliver({PeerId{2}, PeerId{1}, again});
  CHECK(find(bench.core(1).peers(), PeerId{2})->key == again.self.key);
  bench.run(seconds(1));
  bench.deliver({PeerId{77}, PeerId{1}, Hello{signed_record(bench, 77), bench.run_identity}});
  CHECK(find(bench.core(1).peers(), PeerId{77}) != nullptr);
}

TEST_CASE("a stranger for whom there is no room cannot use up the checks that others wait for") {
  CoreBench bench;
  bench.config.peers_max = 2;
  bench.start_swarm(3);
  for (const std::uint64_t doubted : {2, 3}) {  // whom nobody's place is taken from
    Records rumor;
    PeerRecord record = bench.core(doubted).self();
    record.health = Health::kSuspect;
    record.accuser = PeerId{5 - doubted};
    REQUIRE(rumor.records.try_push(record));
    bench.deliver({PeerId{5 - doubted}, PeerId{1}, rumor});
  }
  const Hello truth{signed_record(bench, 77), bench.run_identity};
  for (int i = 0; i < 2 * static_cast<int>(GreetingLimit::kAtOnce); ++i) {
    bench.deliver({PeerId{77}, PeerId{1}, truth});
  }
  CHECK(find(bench.core(1).peers(), PeerId{77}) == nullptr);
  Hello lie{signed_record(bench, 78), bench.run_identity};
  lie.self.signature = {};
  bench.deliver({PeerId{78}, PeerId{1}, lie});
  CHECK(forged(bench, 1) == 1);  // it was looked at
}

TEST_CASE("greetings of a process that is over cost their reader no check of a signature") {
  CoreBench bench;
  bench.start_swarm(2);
  const auto greeting = [&](std::uint64_t process) {
    Hello hello{signed_record(bench, 77), bench.run_identity};
    hello.self.key = record_key({PeerId{77}, process}, 0);
    hello.self.signature =
        StandInSeal(PeerId{77}).sign(sealed_text(bench.run_identity.run, hello.self));
    return hello;
  };
  Records rumor;
  REQUIRE(rumor.records.try_push(greeting(2).self));
  bench.deliver({PeerId{2}, PeerId{1}, rumor});
  const Hello old = greeting(1);
  for (int i = 0; i < 2 * static_cast<int>(GreetingLimit::kAtOnce); ++i) {
    bench.deliver({PeerId{77}, PeerId{1}, old});
  }
  CHECK(find(bench.core(1).peers(), PeerId{77})->key == greeting(2).self.key);
  bench.deliver({PeerId{78}, PeerId{1}, Hello{signed_record(bench, 78), bench.run_identity}});
  CHECK(find(bench.core(1).peers(), PeerId{78}) != nullptr);
  // Nor does one that nobody signed change anything, or bring blame.
  Hello lie = old;
  lie.self.signature = {};
  bench.deliver({PeerId{77}, PeerId{1}, lie});
  CHECK(forged(bench, 1) == 0);
  CHECK(find(bench.core(1).peers(), PeerId{77})->key == greeting(2).self.key);
  bench.deliver({PeerId{77}, PeerId{1}, greeting(2)});
  CHECK(bench.core(1).stats().partners == 3);
}

TEST_CASE("a member's message of forged records is the last one of it that is read") {
  CoreBench bench;
  bench.start_swarm(5);
  Ping ping;
  for (std::uint64_t id = 100; !ping.records.full(); ++id) {
    PeerRecord lie = signed_record(bench, id);
    lie.signature = {};
    REQUIRE(ping.records.try_push(lie));
  }
  for (int i = 0; i < 10; ++i) bench.deliver({kLiar, PeerId{1}, ping});
  CHECK(forged(bench, 1) == 1);
  CHECK(bench.node(1).muted.size() == 1);
}

namespace {

// Peer 2 tells peer 1 of those from `first` to `last`, which never say a word.
void tell_of(CoreBench& bench, std::uint64_t first, std::uint64_t last, Health health) {
  for (std::uint64_t id = first; id <= last;) {
    Records message;
    for (; id <= last && !message.records.full(); ++id) {
      PeerRecord record = signed_record(bench, id);
      record.health = health;
      if (health == Health::kSuspect) record.accuser = PeerId{2};
      REQUIRE(message.records.try_push(record));
    }
    bench.deliver({PeerId{2}, PeerId{1}, message});
    bench.settle();
  }
}

// One that knows so many others. Whom it greets, it warns.
void start_large(CoreBench& bench, std::uint64_t others) {
  bench.config.peers_max = 4000;
  bench.config.connections_max = 1;  // nobody is greeted to be known better
  bench.config.ping_interval = milliseconds(200);
  bench.start_swarm(2);
  tell_of(bench, 100, 99 + others, Health::kAlive);
}

// Of those from 100 to `last`, each as often as it is.
std::size_t warned_within(CoreBench& bench, std::uint64_t last, Duration duration) {
  bench.node(1).greetings.clear();
  bench.run(duration);
  std::size_t warned = 0;
  for (const Greet& greeting : bench.node(1).greetings) {
    for (std::uint64_t id = 100; id <= last; ++id) {
      warned += greeting.address.key == stand_in_key(PeerId{id}) ? 1 : 0;
    }
  }
  return warned;
}

}  // namespace

TEST_CASE("of a large swarm only some warn a suspect, so that it is not drowned") {
  CoreBench bench;
  start_large(bench, 640);
  std::size_t warned = 0;
  for (std::uint64_t id = 100; id < 200; ++id) {
    bench.node(1).greetings.clear();
    tell_of(bench, id, id, Health::kSuspect);
    warned += bench.node(1).greetings.size();
    bench.run(milliseconds(500));
  }
  CHECK(warned > 0);  // 32 of 640
  CHECK(warned < 20);
}

TEST_CASE("who still has an old suspicion warns more often, for it missed the denial") {
  CoreBench bench;
  start_large(bench, 2500);
  tell_of(bench, 100, 105, Health::kSuspect);
  CHECK(warned_within(bench, 105, milliseconds(600)) <= 1);
  CHECK(warned_within(bench, 105, seconds(5)) >= 5);
}

TEST_CASE("where many are suspected at once, as after a split, each is warned by few anyway") {
  CoreBench bench;
  start_large(bench, 640);
  tell_of(bench, 100, 199, Health::kSuspect);
  CHECK(warned_within(bench, 199, seconds(2)) >= 15);  // two every interval
}

TEST_CASE("a denial that some missed is told again to whoever still repeats the rumor") {
  CoreBench bench;
  bench.start_swarm(8);
  // Peer 8 hears nothing of peer 2's denials.
  bench.passes = [](const Letter& letter) { return letter.to != PeerId{8}; };
  PeerRecord rumor = bench.core(2).self();
  rumor.health = Health::kSuspect;
  rumor.accuser = PeerId{3};
  Records message;
  REQUIRE(message.records.try_push(rumor));
  bench.core(8).on_message(bench.now, PeerId{3}, message);
  bench.deliver({PeerId{3}, PeerId{2}, message});
  bench.run(seconds(4));
  bench.passes = [](const Letter&) { return true; };
  bench.run(seconds(20));
  const auto records = bench.core(8).peers();
  CHECK(find(records, PeerId{2})->key == bench.core(2).self().key);
  CHECK(find(records, PeerId{2})->health == Health::kAlive);
}

}  // namespace starling::gossip
