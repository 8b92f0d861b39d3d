// What a member that lies about tokens achieves, with its own name and with others'.
#include <doctest/doctest.h>

#include <vector>

#include "gossip/token_seal.h"
#include "gossip/token_shares.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Letter = CoreBench::Letter;

// The most that can be said.
constexpr std::uint64_t kLie = kTokensOfProcessMax;

TokenEntry lie_about(const PeerKey& of, PeerId signer) {
  TokenEntry entry{of, kLie, TokenSeal::kRateMax, stand_in_key(of.id), {}};
  const StandInSeal seal(signer);
  TokenSeal(&seal, 1).sign(entry);
  return entry;
}

// `from` says that to all of peers 1 to `last`.
void tell(CoreBench& bench, std::uint64_t from, std::uint64_t last, const TokenEntry& entry) {
  Ping ping;
  REQUIRE(ping.tokens.try_push(entry));
  for (std::uint64_t id = 1; id <= last; ++id) {
    if (id != from) bench.deliver({PeerId{from}, PeerId{id}, ping});
  }
}

void train(CoreBench& bench, std::uint64_t last, std::uint64_t tokens) {
  for (std::uint64_t id = 1; id <= last; ++id) bench.core(id).on_progress(bench.now, tokens, 0);
}

}  // namespace

TEST_CASE("a liar about tokens is counted within a bound, told of once, and not when taken off") {
  CoreBench bench;
  bench.start_swarm(8);
  train(bench, 8, 1'000'000);
  bench.run(seconds(30));
  for (std::uint64_t id = 1; id < 8; ++id) {
    REQUIRE(bench.core(id).swarm_tokens(bench.now) == doctest::Approx(8e6));
  }
  tell(bench, 8, 7, lie_about({PeerId{8}, 1}, PeerId{8}));
  bench.run(minutes(3));
  const std::vector<PeerId> honest{PeerId{1}, PeerId{2}, PeerId{3}, PeerId{4},
                                   PeerId{5}, PeerId{6}, PeerId{7}};
  for (std::uint64_t id = 1; id < 8; ++id) {
    CAPTURE(id);
    Core& core = bench.core(id);
    CHECK(core.swarm_tokens(bench.now) == doctest::Approx(7e6 + 256e6));
    REQUIRE(bench.node(id).clipped.size() == 1);
    CHECK(bench.node(id).clipped[0].peer == PeerId{8});
    CHECK(core.stats().peers_clipped == 1);
    core.on_members(bench.now, honest);
    CHECK(core.swarm_tokens(bench.now) == doctest::Approx(7e6));
  }
}

TEST_CASE("a key that comes back to the allow-list counts again") {
  CoreBench bench;
  bench.start_swarm(3);
  train(bench, 3, 1000);
  bench.run(seconds(10));
  bench.core(1).on_members(bench.now, std::vector<PeerId>{PeerId{2}});
  CHECK(bench.core(1).swarm_tokens(bench.now) == 2000);
  bench.core(1).on_members(bench.now, std::vector<PeerId>{PeerId{2}, PeerId{3}});
  CHECK(bench.core(1).swarm_tokens(bench.now) == 3000);
}

TEST_CASE("invented peers that are not on the allow-list take no room") {
  CoreBench bench;
  bench.start_swarm(3);
  const std::vector<PeerId> members{PeerId{2}, PeerId{3}};
  bench.core(1).on_members(bench.now, members);
  const auto rows = bench.core(1).token_map().size();
  for (std::uint64_t id = 100; id < 200; ++id) {
    tell(bench, 3, 2, lie_about({PeerId{id}, 1}, PeerId{id}));
  }
  CHECK(bench.core(1).token_map().size() == rows);
  CHECK(bench.core(2).token_map().size() > rows + 50);  // which has no list
}

TEST_CASE("no liar makes a restarted member a newcomer without weight") {
  CoreBench bench;
  bench.start_swarm(8);
  train(bench, 8, 1'000'000);
  bench.run(seconds(30));
  RestoredState restored;
  restored.tokens = bench.core(1).token_map();
  // The first that it hears.
  bench.passes = [](const Letter& letter) {
    const bool greeting = is<Hello>(letter.message) || is<Welcome>(letter.message);
    return greeting || (letter.from != PeerId{1} && letter.to != PeerId{1});
  };
  bench.crash(1);
  bench.start(1, 2, restored);
  bench.join(1, 8);
  tell(bench, 8, 1, lie_about({PeerId{8}, 1}, PeerId{8}));
  CHECK(bench.core(1).weight() > 0);
}

TEST_CASE("whoever makes up what another has trained is muted and not believed") {
  for (const PeerKey& subject :
       {PeerKey{PeerId{1}, 1}, PeerKey{PeerId{2}, 9}, PeerKey{PeerId{99}, 1}}) {
    CAPTURE(subject.id.value);
    CoreBench bench;
    bench.start_swarm(3);
    train(bench, 3, 1000);
    bench.run(seconds(10));
    tell(bench, 3, 2, lie_about(subject, PeerId{3}));
    bench.run(seconds(10));
    CHECK(bench.core(2).swarm_tokens(bench.now) == 3000);
    REQUIRE(bench.node(2).rejected.size() == 1);
    CHECK(bench.node(2).rejected[0].reason == RejectReason::kForged);
    CHECK(bench.node(2).muted.size() == 1);
  }
}

TEST_CASE("what the dead have trained is told by whoever knows it, to whoever comes") {
  CoreBench bench;
  bench.start_swarm(2);
  train(bench, 2, 1000);
  bench.run(seconds(10));
  bench.crash(2);
  bench.run(minutes(2));
  bench.start(3, 1);
  bench.join(3, 1);
  bench.run(seconds(10));
  CHECK(bench.core(3).swarm_tokens(bench.now) == 2000);
}

TEST_CASE("a peer knows how fast it is beside the fastest, and who lies is taken for a bound") {
  CoreBench bench;
  bench.start_swarm(4);
  CHECK(bench.core(1).speed_share() == 1);
  CHECK(bench.core(1).equal_peers() == 1);
  std::uint64_t trained = 0;
  const auto train_at = [&](const std::vector<float>& rates) {
    for (int turn = 0; turn < 20; ++turn) {
      trained += 1000;
      for (std::uint64_t id = 1; id <= rates.size(); ++id) {
        bench.core(id).on_progress(bench.now, trained, rates[id - 1]);
      }
      bench.run(seconds(1));
    }
  };
  train_at({100, 50, 25, 10});
  CHECK(bench.core(1).speed_share() == doctest::Approx(1));
  CHECK(bench.core(2).speed_share() == doctest::Approx(0.5));
  CHECK(bench.core(4).speed_share() == doctest::Approx(0.1));
  // (1 + 1/8 + 1/64 + 1/1000)^2 / (1 + 1/32 + 1/1024 + 1/100000), of the rates 1, 1/2, 1/4, 1/10.
  CHECK(bench.core(1).equal_peers() == doctest::Approx(1.26261).epsilon(1e-5));
  CHECK(bench.core(4).equal_peers() == doctest::Approx(bench.core(1).equal_peers()));
  train_at({100, 50, 25, 1e30F});
  CHECK(bench.core(1).speed_share() == doctest::Approx(1 / TokenShares::kRatio));
  CHECK(bench.core(1).equal_peers() == doctest::Approx(1).epsilon(0.001));  // as if alone
  bench.crash(4);
  bench.run(minutes(2));
  CHECK(bench.core(2).speed_share() == doctest::Approx(0.5));
}

TEST_CASE("where few say how fast they are, a liar is taken for a bound of what is usual there") {
  CoreBench bench;
  bench.start_swarm(3);
  const auto tell_rates = [&](const std::vector<float>& rates) {
    for (std::uint64_t trained = 1000; trained <= 20'000; trained += 1000) {
      for (std::uint64_t id = 1; id <= rates.size(); ++id) {
        bench.core(id).on_progress(bench.now, trained, rates[id - 1]);
      }
      bench.run(seconds(1));
    }
  };
  tell_rates({100, 50, 1e30F});
  CHECK(bench.core(1).speed_share() == doctest::Approx(1 / TokenShares::kRatio));
  CHECK(bench.core(2).speed_share() == doctest::Approx(0.5 / TokenShares::kRatio));
  CHECK(bench.core(1).fastest_peer() == PeerId{3});
}

TEST_CASE("where the dead fill the map of tokens a restarted peer is still known for its speed") {
  CoreBench bench;
  bench.config.peers_max = 8;
  bench.start_swarm(3);
  for (std::uint64_t life = 1; life <= 4 * bench.config.peers_max; ++life) {
    TokenEntry short_life{{PeerId{9}, life}, 10, 1, stand_in_key(PeerId{9}), {}};
    const StandInSeal seal(PeerId{9});
    TokenSeal(&seal, 1).sign(short_life);
    tell(bench, 3, 2, short_life);
  }
  const auto train_both = [&](std::uint64_t tokens) {
    bench.core(1).on_progress(bench.now, tokens, 10);
    bench.core(2).on_progress(bench.now, tokens, 100);
    bench.run(seconds(10));
    CHECK(bench.core(1).speed_share() == doctest::Approx(0.1));
    CHECK(bench.core(1).token_map().size() == 4 * bench.config.peers_max);
  };
  train_both(1000);
  bench.crash(2);
  bench.run(minutes(2));
  bench.start(2, 1000);
  bench.join(2, 3);
  bench.run(seconds(10));
  train_both(2000);
}

}  // namespace starling::gossip
