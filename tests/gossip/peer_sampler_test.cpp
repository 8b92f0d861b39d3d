#include <doctest/doctest.h>

#include <map>
#include <vector>

#include "gossip/peer_sampler.h"

namespace starling::gossip {
namespace {

constexpr Instant kStart{};
const Conduct kNobodyBad;

PeerTable table_of(std::uint64_t peers) {
  PeerTable table(64, Duration::zero());
  Rng dice(1);
  for (std::uint64_t id = 1; id <= peers; ++id) {
    static_cast<void>(table.merge(
        kStart, {record_key({PeerId{id}, 1}, 0), {}, Health::kAlive, true, {}, 0}, dice));
    table.find(PeerId{id})->welcomed = true;
  }
  return table;
}

}  // namespace

TEST_CASE("partners are drawn evenly") {
  constexpr int kDraws = 20000;
  constexpr int kPeers = 10;
  const PeerTable table = table_of(kPeers);
  const PeerSampler sampler;
  Rng rng(1);
  std::map<PeerId, int> drawn;
  for (int i = 0; i < kDraws; ++i) ++drawn[*sampler.sample(kStart, table, kNobodyBad, {}, rng)];
  // Chi-square with 9 degrees of freedom; 27.9 is exceeded with probability 0.001.
  double chi_square = 0;
  const double expected = double{kDraws} / kPeers;
  for (const auto& [id, count] : drawn) {
    chi_square += (count - expected) * (count - expected) / expected;
  }
  CHECK(drawn.size() == kPeers);
  CHECK(chi_square < 27.9);
}

TEST_CASE("only live and welcomed peers are drawn, and none that declined just now") {
  PeerTable table = table_of(5);
  table.find(PeerId{1})->welcomed = false;
  table.find(PeerId{2})->record.health = Health::kSuspect;
  table.find(PeerId{3})->record.health = Health::kDead;
  table.find(PeerId{4})->declined_until = kStart + std::chrono::seconds(1);
  const PeerSampler sampler;
  Rng rng(2);
  for (int i = 0; i < 100; ++i)
    CHECK(sampler.sample(kStart, table, kNobodyBad, {}, rng) == PeerId{5});
  const std::vector<PeerId> tried{PeerId{5}};
  CHECK_FALSE(sampler.sample(kStart, table, kNobodyBad, tried, rng));
  CHECK(sampler.sample(kStart + std::chrono::seconds(1), table, kNobodyBad, tried, rng) ==
        PeerId{4});
}

TEST_CASE("the last partner is drawn again only if there is no other") {
  const PeerTable table = table_of(2);
  PeerSampler sampler;
  sampler.remember_partner(PeerId{1});
  Rng rng(3);
  for (int i = 0; i < 100; ++i)
    CHECK(sampler.sample(kStart, table, kNobodyBad, {}, rng) == PeerId{2});
  const std::vector<PeerId> tried{PeerId{2}};
  CHECK(sampler.sample(kStart, table, kNobodyBad, tried, rng) == PeerId{1});
}

TEST_CASE(
    "one to which only a relay leads is drawn half as often, and drawn if there is no other") {
  constexpr int kDraws = 20000;
  const Instant now = kStart + std::chrono::hours(2);
  PeerTable table = table_of(4);
  Peer& far = *table.find(PeerId{1});
  far.record.dialable = false;
  far.last_heard = now;  // through the relay
  const PeerSampler sampler;
  Rng rng(4);
  int drawn = 0;
  for (int i = 0; i < kDraws; ++i) {
    drawn += sampler.sample(now, table, kNobodyBad, {}, rng) == PeerId{1};
  }
  // 1/4, passed over every second time for another draw: 1/4 (1/2 + 1/2 1/4).
  CHECK(drawn > 0.145 * kDraws);
  CHECK(drawn < 0.168 * kDraws);
  const std::vector<PeerId> tried{PeerId{2}, PeerId{3}, PeerId{4}};
  CHECK(sampler.sample(now, table, kNobodyBad, tried, rng) == PeerId{1});
  far.last_heard = now - kOwnLineKept;
  CHECK_FALSE(sampler.sample(now, table, kNobodyBad, tried, rng));
}

}  // namespace starling::gossip
