// Two processes with one key, as on a copied machine: who is told, and who cannot make it up.
#include <doctest/doctest.h>

#include "gossip/greeting_limit.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

const PeerId kVictim{2};

// Of a second process that runs on a copy of the peer's key.
PeerRecord twin_of(CoreBench& bench, PeerId id, std::uint64_t process) {
  PeerRecord twin{record_key({id, process}, 0), CoreBench::address_of(id)};
  twin.address.control_port = 7003;
  twin.signature = StandInSeal(id).sign(sealed_text(bench.run_identity.run, twin));
  return twin;
}

Records records_of(const PeerRecord& record) {
  Records message;
  REQUIRE(message.records.try_push(record));
  return message;
}

}  // namespace

TEST_CASE("a peer whose key a later process has too is told once, and blames nobody") {
  CoreBench bench;
  bench.start_swarm(3);
  const PeerRecord twin = twin_of(bench, kVictim, 1000);
  for (int i = 0; i < 3; ++i) bench.deliver({PeerId{3}, kVictim, records_of(twin)});
  const auto& told = bench.node(kVictim.value).refused;
  REQUIRE(told.size() == 1);
  CHECK(told[0].reason == RefuseReason::kSelf);
  CHECK(told[0].address == twin.address);
  CHECK(told[0].by_us);
  CHECK(bench.node(kVictim.value).muted.empty());
  bench.run(minutes(10));
  bench.deliver({PeerId{3}, kVictim, records_of(twin)});
  CHECK(told.size() == 2);
}

TEST_CASE("neither an old life nor a lie is taken for another process with the own key") {
  CoreBench bench;
  bench.start(1);
  bench.start(2, 5);
  bench.start(3);
  bench.join(2, 1);
  bench.join(3, 1);
  bench.run(seconds(10));
  bench.deliver({PeerId{3}, kVictim, records_of(twin_of(bench, kVictim, 4))});
  CHECK(bench.node(2).muted.empty());
  PeerRecord lie = twin_of(bench, kVictim, 1000);
  lie.signature[0] ^= 1;
  bench.deliver({PeerId{3}, kVictim, records_of(lie)});
  CHECK(bench.core(2).stats().rejected[static_cast<std::size_t>(RejectReason::kForged)] == 1);
  CHECK(bench.node(2).refused.empty());
}

TEST_CASE("a peer whose greeting is outdated is shown the later process that has its key") {
  CoreBench bench;
  bench.start_swarm(3);
  bench.deliver({PeerId{3}, PeerId{1}, records_of(twin_of(bench, kVictim, 1000))});
  bench.start(kVictim.value);  // it knows nobody, and nobody listens to it
  bench.join(kVictim.value, 1);
  bench.run(seconds(1));
  const auto& told = bench.node(kVictim.value).refused;
  REQUIRE(told.size() == 1);
  CHECK(told[0].reason == RefuseReason::kSelf);
}

TEST_CASE("strangers that show forged records of the own key cost few checks, and bar themselves") {
  CoreBench bench;
  bench.start_swarm(3);
  PeerRecord lie = twin_of(bench, kVictim, 1000);
  lie.signature[0] ^= 1;
  for (int i = 0; i < 1000; ++i) bench.deliver({PeerId{77}, kVictim, records_of(lie)});
  CHECK(forged(bench, kVictim.value) == 1);
  // Nor is what it says of itself looked at for a while.
  const Hello hello{signed_record(bench, 77), bench.run_identity};
  const std::uint64_t refused = bench.core(kVictim.value).stats().messages_refused;
  bench.deliver({PeerId{77}, kVictim, hello});
  CHECK(bench.core(kVictim.value).stats().messages_refused == refused + 1);
  for (std::uint64_t id = 1000; id < 4000; ++id) {
    bench.deliver({PeerId{id}, kVictim, records_of(lie)});
  }
  CHECK(forged(bench, kVictim.value) == GreetingLimit::kAtOnce);
  // What is true is still found out.
  bench.run(seconds(1));
  bench.deliver({PeerId{78}, kVictim, records_of(twin_of(bench, kVictim, 1000))});
  REQUIRE(bench.node(kVictim.value).refused.size() == 1);
  CHECK(bench.node(kVictim.value).refused[0].reason == RefuseReason::kSelf);
}

TEST_CASE("the operator told of a later process once, its record costs no further check") {
  CoreBench bench;
  bench.start_swarm(2);
  const Records truth = records_of(twin_of(bench, kVictim, 1000));
  for (std::uint64_t id = 1000; id < 3000; ++id) bench.deliver({PeerId{id}, kVictim, truth});
  CHECK(bench.node(kVictim.value).refused.size() == 1);
  // None was taken of those that greetings wait for, and nobody barred.
  const Hello hello{signed_record(bench, 1001), bench.run_identity};
  const std::uint64_t met = bench.core(kVictim.value).stats().partners;
  bench.deliver({PeerId{1001}, kVictim, hello});
  CHECK(bench.core(kVictim.value).stats().partners == met + 1);
}

}  // namespace starling::gossip
