#include <doctest/doctest.h>

#include <map>
#include <vector>

#include "gossip/peer_sampler.h"

namespace starling::gossip {
namespace {

constexpr Instant kStart{};
const Conduct kNobodyBad;
const Paces kNoPaces;

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

// Round trips of the peers 1, 2 and so on; of the others nothing is known.
Paces paces_of(std::initializer_list<int> milliseconds) {
  Paces paces;
  std::uint64_t id = 0;
  for (const int each : milliseconds) {
    paces.of(kStart, PeerId{++id}).on_round_trip(std::chrono::milliseconds(each));
  }
  return paces;
}

// How often each is drawn, over how often it would be if all were drawn evenly.
std::map<PeerId, double> shares(const PeerSampler& sampler, const PeerTable& table,
                                const Paces& paces, std::span<const PeerId> tried = {},
                                PeerId last = {}) {
  constexpr int kDraws = 20000;
  Rng rng(5);
  std::map<PeerId, double> drawn;
  for (int i = 0; i < kDraws; ++i) {
    drawn[*sampler.sample(kStart, {table, kNobodyBad, paces, last}, tried, rng)] +=
        static_cast<double>(table.rows().size()) / kDraws;
  }
  return drawn;
}

}  // namespace

TEST_CASE("partners are drawn evenly") {
  constexpr int kDraws = 20000;
  constexpr int kPeers = 10;
  const PeerTable table = table_of(kPeers);
  const PeerSampler sampler(0);
  Rng rng(1);
  std::map<PeerId, int> drawn;
  for (int i = 0; i < kDraws; ++i)
    ++drawn[*sampler.sample(kStart, {table, kNobodyBad, kNoPaces}, {}, rng)];
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
  const PeerSampler sampler(0);
  Rng rng(2);
  for (int i = 0; i < 100; ++i)
    CHECK(sampler.sample(kStart, {table, kNobodyBad, kNoPaces}, {}, rng) == PeerId{5});
  const std::vector<PeerId> tried{PeerId{5}};
  CHECK_FALSE(sampler.sample(kStart, {table, kNobodyBad, kNoPaces}, tried, rng));
  CHECK(sampler.sample(kStart + std::chrono::seconds(1), {table, kNobodyBad, kNoPaces}, tried,
                       rng) == PeerId{4});
}

TEST_CASE("the last partner is drawn again only if there is no other") {
  const PeerTable table = table_of(2);
  const PeerSampler sampler(0);
  const PeerSampler::Known known{table, kNobodyBad, kNoPaces, PeerId{1}};
  Rng rng(3);
  for (int i = 0; i < 100; ++i) CHECK(sampler.sample(kStart, known, {}, rng) == PeerId{2});
  const std::vector<PeerId> tried{PeerId{2}};
  CHECK(sampler.sample(kStart, known, tried, rng) == PeerId{1});
}

TEST_CASE(
    "one to which only a relay leads is drawn half as often, and drawn if there is no other") {
  constexpr int kDraws = 20000;
  const Instant now = kStart + std::chrono::hours(2);
  PeerTable table = table_of(4);
  Peer& far = *table.find(PeerId{1});
  far.record.dialable = false;
  far.last_heard = now;  // through the relay
  const PeerSampler sampler(0);
  Rng rng(4);
  int drawn = 0;
  for (int i = 0; i < kDraws; ++i) {
    drawn += sampler.sample(now, {table, kNobodyBad, kNoPaces}, {}, rng) == PeerId{1};
  }
  // 1/4, passed over every second time for another draw: 1/4 (1/2 + 1/2 1/4).
  CHECK(drawn > 0.145 * kDraws);
  CHECK(drawn < 0.168 * kDraws);
  const std::vector<PeerId> tried{PeerId{2}, PeerId{3}, PeerId{4}};
  CHECK(sampler.sample(now, {table, kNobodyBad, kNoPaces}, tried, rng) == PeerId{1});
  far.last_heard = now - kOwnLineKept;
  CHECK_FALSE(sampler.sample(now, {table, kNobodyBad, kNoPaces}, tried, rng));
}

TEST_CASE("near partners are preferred, and the far ones keep the share that is drawn evenly") {
  // Three in the room, twelve far away.
  const PeerTable table = table_of(15);
  const Paces paces =
      paces_of({1, 2, 3, 90, 100, 110, 120, 130, 140, 150, 160, 170, 180, 190, 200});
  double near_before = 3.0 / 15 - 0.01;
  for (const double locality : {0.0, 0.25, 0.5}) {
    CAPTURE(locality);
    const auto drawn = shares(PeerSampler(locality), table, paces);
    REQUIRE(drawn.size() == 15);
    double near = 0;
    for (const auto& [id, share] : drawn) {
      CAPTURE(id.value);
      CHECK(share > 0.85 * (1 - locality));
      CHECK(share < 1.15 * (1 + (PeerSampler::kNearDraws - 1) * locality));
      if (id.value <= 3) near += share / 15;
    }
    CHECK(near > near_before);
    near_before = near + 0.1;
    // Of eight draws one is near with chance 1 - 0.8^8 = 0.832.
    CHECK(near == doctest::Approx(0.2 + (0.832 - 0.2) * locality).epsilon(0.05));
  }
}

TEST_CASE("those in one room are alike, though one of them answers a little sooner") {
  const PeerTable table = table_of(8);
  const auto drawn = shares(PeerSampler(0.5), table, paces_of({1, 3, 4, 5, 100, 100, 100, 100}));
  for (std::uint64_t id = 2; id <= 4; ++id) {
    CHECK(drawn.at(PeerId{id}) == doctest::Approx(drawn.at(PeerId{1})).epsilon(0.06));
  }
  // So are those that are far from everybody.
  const auto all_far =
      shares(PeerSampler(0.5), table, paces_of({99, 120, 100, 130, 110, 90, 95, 140}));
  for (const auto& [id, share] : all_far) CHECK(share == doctest::Approx(1).epsilon(0.08));
}

TEST_CASE("a peer whose round trip is not known keeps its even share") {
  const PeerTable table = table_of(10);
  const PeerSampler sampler(0.5);
  for (const auto& [id, share] : shares(sampler, table, kNoPaces)) {
    CAPTURE(id.value);
    CHECK(share == doctest::Approx(1).epsilon(0.08));
  }
  const auto drawn = shares(sampler, table, paces_of({100, 1}));
  for (std::uint64_t id = 3; id <= 10; ++id) {
    CAPTURE(id);
    CHECK(drawn.at(PeerId{id}) == doctest::Approx(1).epsilon(0.08));
  }
  CHECK(drawn.at(PeerId{2}) > 1.2);
  CHECK(drawn.at(PeerId{1}) < 0.8);
  CHECK(drawn.at(PeerId{1}) > 0.4);
  // That a row is kept for other reasons measures nothing.
  Paces paces = paces_of({100, 1});
  paces.of(kStart, PeerId{3}).on_silence();
  CHECK(shares(sampler, table, paces).at(PeerId{3}) == doctest::Approx(1).epsilon(0.08));
}

TEST_CASE("the only one there is drawn, however far, and nobody where there is nobody") {
  const PeerSampler sampler(0.5);
  Rng rng(6);
  const PeerTable one = table_of(1);
  const Paces far = paces_of({60'000});
  const std::vector<PeerId> tried{PeerId{1}};
  for (int i = 0; i < 100; ++i) {
    CHECK(sampler.sample(kStart, {one, kNobodyBad, far}, {}, rng) == PeerId{1});
    CHECK_FALSE(sampler.sample(kStart, {one, kNobodyBad, far}, tried, rng));
    CHECK_FALSE(sampler.sample(kStart, {table_of(0), kNobodyBad, far}, {}, rng));
  }
}

TEST_CASE("who may not be drawn is not drawn for being near") {
  PeerTable table = table_of(7);
  Conduct conduct;
  conduct.offend(kStart, PeerId{1});                                         // muted
  conduct.silent(kStart, PeerId{2}, std::chrono::seconds(10));               // rests
  table.find(PeerId{3})->declined_until = kStart + std::chrono::seconds(1);  // busy
  table.find(PeerId{4})->record.health = Health::kSuspect;
  const std::vector<PeerId> tried{PeerId{5}};
  const Paces paces = paces_of({1, 1, 1, 1, 1, 100, 200});
  const PeerSampler sampler(0.5);
  Rng rng(7);
  std::map<PeerId, int> drawn;
  for (int i = 0; i < 1000; ++i)
    ++drawn[*sampler.sample(kStart, {table, conduct, paces}, tried, rng)];
  CHECK(drawn.size() == 2);
  CHECK(drawn[PeerId{6}] > 0);
  CHECK(drawn[PeerId{7}] > 0);
}

TEST_CASE("the nearest is not drawn twice in a row while there is another") {
  const auto drawn =
      shares(PeerSampler(0.5), table_of(4), paces_of({1, 100, 100, 100}), {}, PeerId{1});
  CHECK(drawn.size() == 3);
  CHECK_FALSE(drawn.contains(PeerId{1}));
}

TEST_CASE("in a large table near partners are found among a few draws, too") {
  PeerTable table(512, Duration::zero());
  Rng dice(1);
  Paces paces;
  for (std::uint64_t id = 1; id <= 400; ++id) {
    static_cast<void>(table.merge(
        kStart, {record_key({PeerId{id}, 1}, 0), {}, Health::kAlive, true, {}, 0}, dice));
    table.find(PeerId{id})->welcomed = true;
    paces.of(kStart, PeerId{id}).on_round_trip(std::chrono::milliseconds(id <= 100 ? 10 : 100));
  }
  double near = 0;
  for (const auto& [id, share] : shares(PeerSampler(0.5), table, paces)) {
    if (id.value <= 100) near += share / 400;
  }
  CHECK(near == doctest::Approx(0.575).epsilon(0.05));  // half of 1 - 0.75^8, half of a quarter
}

}  // namespace starling::gossip
