#include "optim/outer_exchange.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "optim/outer_ad_psgd.h"
#include "optim/outer_all_reduce.h"
#include "optim/outer_async_local_sgd.h"
#include "optim/outer_diloco.h"
#include "optim/outer_epidemic.h"
#include "optim/outer_noloco.h"
#include "optim/outer_push_sum.h"
#include "optim/outer_rule.h"
#include "optim/outer_streaming_diloco.h"
#include "optim/outer_swarm_sgd.h"
#include "optim/vector_math.h"
#include "tests/support/worst.h"

namespace starling::optim {

namespace {

constexpr std::size_t kCount = 50;
using Audience = ExchangePlan::Audience;

constexpr std::array kExchanges = {
    OuterMethod::kAllReduce, OuterMethod::kDiloco,  OuterMethod::kStreamingDiloco,
    OuterMethod::kNoloco,    OuterMethod::kAdPsgd,  OuterMethod::kAsyncLocalSgd,
    OuterMethod::kSwarmSgd,  OuterMethod::kPushSum, OuterMethod::kEpidemic};

std::unique_ptr<OuterExchange> exchange_of(const OuterConfig& config) {
  auto made = make_outer_exchange(config);
  REQUIRE(made.ok());
  return std::move(made).value();
}

std::unique_ptr<OuterExchange> exchange_of(OuterMethod method) {
  return exchange_of(outer_defaults(method).rule);
}

std::vector<float> normal(Rng& rng, float scale) {
  std::vector<float> values(kCount);
  for (float& value : values) value = scale * rng.normal();
  return values;
}

struct Peer {
  explicit Peer(const std::vector<float>& weights)
      : slow(weights), momentum(kCount, 0.0f), fast(weights), gradient(kCount, 0.0f) {}

  ExchangeState state() {
    return {.slow = slow, .momentum = momentum, .fast = fast, .gradient = gradient, .mass = mass};
  }

  std::vector<float> slow, momentum, fast, gradient;
  double mass = 1.0;
};

void offer(const OuterExchange& exchange, Peer& peer, Parcel& parcel) {
  ExchangeState state = peer.state();
  exchange.offer(state, parcel);
  peer.mass = state.mass;
}

void take(const OuterExchange& exchange, Peer& peer, const Parcel& own, const Parcel& combined) {
  ExchangeState state = peer.state();
  exchange.take(state, own, combined);
  peer.mass = state.mass;
}

// A round in which everybody hears of all of `members`.
void meet(const OuterExchange& exchange, std::vector<Peer*> members) {
  std::vector<Parcel> parcels(members.size());
  std::vector<const Parcel*> all;
  for (std::size_t p = 0; p < members.size(); ++p) {
    offer(exchange, *members[p], parcels[p]);
    all.push_back(&parcels[p]);
  }
  Parcel combined;
  exchange.combine(all, combined);
  for (std::size_t p = 0; p < members.size(); ++p) {
    take(exchange, *members[p], parcels[p], combined);
  }
}

std::vector<Peer*> pointers(std::vector<Peer>& peers) {
  std::vector<Peer*> result;
  for (Peer& peer : peers) result.push_back(&peer);
  return result;
}

double distance(const std::vector<float>& left, const std::vector<float>& right) {
  double worst = 0.0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    testing::note_worst(worst, std::abs(double{left[i]} - right[i]));
  }
  return worst;
}

std::vector<double> sum_of_fast(const std::vector<Peer>& peers) {
  std::vector<double> sum(kCount);
  for (const Peer& peer : peers) {
    for (std::size_t i = 0; i < kCount; ++i) sum[i] += peer.fast[i];
  }
  return sum;
}

}  // namespace

TEST_CASE("every method of whole vectors is made, and no rule of one peer is") {
  std::set<std::string_view> names;
  for (const OuterMethod method : kExchanges) {
    CHECK(!is_outer_rule(method));
    names.insert(exchange_of(method)->name());
    CHECK(!make_outer_rule(outer_defaults(method).rule).ok());
  }
  CHECK(names.size() == kExchanges.size());
  for (const OuterMethod method : {OuterMethod::kPairGossip, OuterMethod::kLocal}) {
    CHECK(is_outer_rule(method));
    CHECK(!make_outer_exchange({.method = method}).ok());
  }
  CHECK(!make_outer_exchange({.method = OuterMethod::kNoloco, .group_pull = 9.0f}).ok());
}

TEST_CASE("plans say who hears what and who waits") {
  const auto plan = [](OuterMethod method) { return exchange_of(method)->plan(8); };
  CHECK(plan(OuterMethod::kAllReduce).when == ExchangePlan::When::kGradient);
  CHECK(plan(OuterMethod::kDiloco).audience == Audience::kEveryone);
  CHECK(plan(OuterMethod::kStreamingDiloco).overlap_steps == 1);
  CHECK(plan(OuterMethod::kNoloco).audience == Audience::kGroup);
  CHECK(plan(OuterMethod::kNoloco).count == 2);
  CHECK(plan(OuterMethod::kNoloco).vectors == 2);
  CHECK(plan(OuterMethod::kAsyncLocalSgd).audience == Audience::kServer);
  CHECK(plan(OuterMethod::kAdPsgd).two_halves);
  CHECK(plan(OuterMethod::kPushSum).audience == Audience::kNextInRotation);
  CHECK(plan(OuterMethod::kEpidemic).count == 3);
  for (const OuterMethod method : kExchanges) {
    const bool never_waits = method == OuterMethod::kAdPsgd || method == OuterMethod::kSwarmSgd;
    CHECK(plan(method).waits != never_waits);
  }
  CHECK(exchange_of({.method = OuterMethod::kNoloco, .momentum = 0.5f, .group = 100})
            ->plan(4)
            .count == 4);
  CHECK(exchange_of({.method = OuterMethod::kEpidemic, .targets = 100})->plan(4).count == 3);
  CHECK(exchange_of(OuterMethod::kEpidemic)->plan(9).count == 4);
}

TEST_CASE("the mean of equal parcels is exactly each of them, and weights count") {
  Rng rng(7);
  const auto exchange = exchange_of(OuterMethod::kDiloco);
  const Parcel one{normal(rng, 1.0f), 1.0};
  const Parcel two{normal(rng, 1.0f), 3.0};
  Parcel combined;
  exchange->combine(std::vector<const Parcel*>{&one, &one, &one}, combined);
  CHECK(combined.values == one.values);
  CHECK(combined.weight == 3.0);
  exchange->combine(std::vector<const Parcel*>{&one, &two}, combined);
  CHECK(combined.weight == 4.0);
  for (std::size_t i = 0; i < kCount; ++i) {
    CHECK(combined.values[i] == doctest::Approx(0.25 * one.values[i] + 0.75 * two.values[i]));
  }
}

TEST_CASE("peers that agree and do not train stay as they are, bit for bit") {
  Rng rng(8);
  const std::vector<float> weights = normal(rng, 1.0f);
  for (const OuterMethod method : kExchanges) {
    if (method == OuterMethod::kAsyncLocalSgd || method == OuterMethod::kPushSum) continue;
    const auto exchange = exchange_of(method);
    CAPTURE(std::string(exchange->name()));
    std::vector<Peer> peers(3, Peer(weights));
    for (int round = 0; round < 3; ++round) meet(*exchange, pointers(peers));
    for (const Peer& peer : peers) {
      CHECK(peer.fast == weights);
      CHECK(peer.slow == weights);
    }
  }
}

TEST_CASE("noloco with one group of all peers and no momentum is diloco without momentum") {
  Rng rng(9);
  const auto noloco = exchange_of({.method = OuterMethod::kNoloco,
                                   .momentum = 0.0f,
                                   .learning_rate = 0.7f,
                                   .group_pull = 0.7f,
                                   .group = 4});
  const auto diloco =
      exchange_of({.method = OuterMethod::kDiloco, .momentum = 0.0f, .learning_rate = 0.7f});
  const std::vector<float> start = normal(rng, 1.0f);
  std::vector<Peer> left(4, Peer(start));
  std::vector<Peer> right(4, Peer(start));
  for (int round = 0; round < 20; ++round) {
    for (std::size_t p = 0; p < 4; ++p) {
      const std::vector<float> inner = normal(rng, 0.1f);
      add_scaled(left[p].fast, 1.0f, inner);
      add_scaled(right[p].fast, 1.0f, inner);
    }
    meet(*noloco, pointers(left));
    meet(*diloco, pointers(right));
  }
  for (std::size_t p = 0; p < 4; ++p) CHECK(distance(left[p].fast, right[p].fast) < 1e-6);
  CHECK(distance(left[0].fast, start) > 0.1);
}

TEST_CASE("noloco with one group of all peers is a heavy ball on their mean displacement") {
  Rng rng(10);
  const auto noloco = exchange_of({.method = OuterMethod::kNoloco,
                                   .momentum = 0.5f,
                                   .learning_rate = 0.7f,
                                   .group_pull = 0.7f,
                                   .group = 4});
  const std::vector<float> start = normal(rng, 1.0f);
  std::vector<Peer> peers(4, Peer(start));
  std::vector<double> slow(start.begin(), start.end());
  std::vector<double> momentum(kCount);
  for (int round = 0; round < 20; ++round) {
    std::vector<double> mean(kCount);
    for (Peer& peer : peers) {
      const std::vector<float> inner = normal(rng, 0.1f);
      add_scaled(peer.fast, 1.0f, inner);
      for (std::size_t i = 0; i < kCount; ++i) mean[i] += 0.25 * inner[i];
    }
    meet(*noloco, pointers(peers));
    for (std::size_t i = 0; i < kCount; ++i) {
      momentum[i] = 0.5 * momentum[i] + 0.7 * mean[i];
      slow[i] += momentum[i];
    }
  }
  for (std::size_t i = 0; i < kCount; ++i) CHECK(std::abs(peers[2].slow[i] - slow[i]) < 2e-6);
}

TEST_CASE("streaming diloco that neither overlaps nor mixes is diloco") {
  Rng rng(11);
  OuterConfig config = outer_defaults(OuterMethod::kDiloco).rule;
  const auto diloco = exchange_of(config);
  config.method = OuterMethod::kStreamingDiloco;
  config.blend = 0.0f;
  const auto streaming = exchange_of(config);
  const std::vector<float> start = normal(rng, 1.0f);
  std::vector<Peer> left(3, Peer(start));
  std::vector<Peer> right(3, Peer(start));
  for (int round = 0; round < 10; ++round) {
    for (std::size_t p = 0; p < 3; ++p) {
      const std::vector<float> inner = normal(rng, 0.1f);
      add_scaled(left[p].fast, 1.0f, inner);
      add_scaled(right[p].fast, 1.0f, inner);
    }
    meet(*diloco, pointers(left));
    meet(*streaming, pointers(right));
  }
  for (std::size_t p = 0; p < 3; ++p) CHECK(left[p].fast == right[p].fast);
}

TEST_CASE("equal displacements move delayed Nesterov once where they move Nesterov four times") {
  const std::vector<float> displacement(kCount, 1.0f);
  const auto moved = [&](std::uint32_t buffer) {
    const OuterConfig config{.method = OuterMethod::kAsyncLocalSgd,
                             .momentum = 0.9f,
                             .learning_rate = 0.5f,
                             .buffer = buffer};
    DelayedNesterovServer server(config, 7, std::vector<float>(kCount, 0.0f));
    for (int arrival = 0; arrival < 4; ++arrival) server.receive(displacement);
    return server.weights()[kCount - 1] / 0.5;
  };
  CHECK(moved(4) == doctest::Approx(1.9));
  CHECK(moved(1) == doctest::Approx(12.1441));
  // Without a buffer of its own the server has one of seven here: four of seven, no momentum yet.
  CHECK(moved(0) == doctest::Approx(4.0 / 7.0));
}

TEST_CASE("a peer of the server goes on from the server's weights") {
  Rng rng(12);
  const auto exchange = exchange_of(OuterMethod::kAsyncLocalSgd);
  Peer peer(normal(rng, 1.0f));
  const std::vector<float> inner = normal(rng, 0.1f);
  add_scaled(peer.fast, 1.0f, inner);
  Parcel own;
  offer(*exchange, peer, own);
  CHECK(distance(own.values, inner) < 1e-6);
  const Parcel reply{normal(rng, 1.0f), 1.0};
  take(*exchange, peer, own, reply);
  CHECK(peer.fast == reply.values);
  CHECK(peer.slow == reply.values);
}

TEST_CASE("pairs keep the mean and what training did meanwhile, however late they end") {
  for (const OuterMethod method : {OuterMethod::kAdPsgd, OuterMethod::kSwarmSgd}) {
    const auto exchange = exchange_of(method);
    CAPTURE(std::string(exchange->name()));
    Rng rng(13);
    struct Late {
      std::size_t peer;
      Parcel own, combined;
    };
    std::vector<Peer> peers;
    for (int p = 0; p < 6; ++p) peers.emplace_back(normal(rng, 1.0f));
    std::vector<double> expected = sum_of_fast(peers);
    std::vector<Late> pending;
    const auto end_one = [&] {
      const std::size_t pick = rng.below(pending.size());
      take(*exchange, peers[pending[pick].peer], pending[pick].own, pending[pick].combined);
      pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(pick));
    };
    for (int event = 0; event < 300; ++event) {
      const std::size_t left = rng.below(6);
      const std::size_t right = (left + 1 + rng.below(5)) % 6;
      const std::vector<float> inner = normal(rng, 0.05f);
      add_scaled(peers[left].fast, 1.0f, inner);
      for (std::size_t i = 0; i < kCount; ++i) expected[i] += inner[i];
      Parcel offered;
      Parcel answered;
      Parcel combined;
      offer(*exchange, peers[left], offered);
      ExchangeState partner = peers[right].state();
      exchange->answer(partner, answered);
      exchange->combine(std::vector<const Parcel*>{&offered, &answered}, combined);
      exchange->take(partner, answered, combined);
      pending.push_back({left, offered, combined});
      while (pending.size() > 3) end_one();
    }
    while (!pending.empty()) end_one();
    const std::vector<double> after = sum_of_fast(peers);
    for (std::size_t i = 0; i < kCount; ++i) CHECK(std::abs(after[i] - expected[i]) < 1e-4);
    CHECK(distance(peers[0].fast, peers[1].fast) < 3.0);
  }
}

TEST_CASE("push-sum loses no mass on the way, and all end at the mean of the start") {
  const auto exchange = exchange_of(OuterMethod::kPushSum);
  Rng rng(14);
  constexpr std::size_t kPeers = 6;
  std::vector<Peer> peers;
  for (std::size_t p = 0; p < kPeers; ++p) peers.emplace_back(normal(rng, 1.0f));
  const std::vector<double> sum = sum_of_fast(peers);
  struct Sent {
    std::size_t to;
    Parcel parcel;
  };
  std::vector<Sent> under_way;
  for (std::uint64_t round = 0; round < 80; ++round) {
    for (std::size_t p = 0; p < kPeers; ++p) {
      Sent sent{rotation_target(p, kPeers, round), {}};
      offer(*exchange, peers[p], sent.parcel);
      under_way.push_back(std::move(sent));
    }
    double mass = 0.0;
    for (const Peer& peer : peers) mass += peer.mass;
    for (const Sent& sent : under_way) mass += sent.parcel.weight;
    REQUIRE(mass == doctest::Approx(kPeers));
    while (under_way.size() > (round < 79 ? 5U : 0U)) {
      const std::size_t pick = rng.below(under_way.size());
      Parcel combined;
      exchange->combine(std::vector<const Parcel*>{&under_way[pick].parcel}, combined);
      take(*exchange, peers[under_way[pick].to], under_way[pick].parcel, combined);
      under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(pick));
    }
  }
  for (const Peer& peer : peers) {
    for (std::size_t i = 0; i < kCount; ++i) {
      CHECK(std::abs(peer.fast[i] - sum[i] / kPeers) < 1e-4);
    }
  }
}

TEST_CASE("in a rotation everybody sends to somebody else and receives once") {
  for (const std::size_t peers : {2U, 3U, 5U, 8U, 9U}) {
    CAPTURE(peers);
    std::set<std::size_t> distances;
    for (std::uint64_t round = 0; round < 12; ++round) {
      std::set<std::size_t> receivers;
      for (std::size_t rank = 0; rank < peers; ++rank) {
        const std::size_t target = rotation_target(rank, peers, round);
        CHECK(target != rank);
        receivers.insert(target);
      }
      CHECK(receivers.size() == peers);
      distances.insert(rotation_target(0, peers, round));
    }
    CHECK(distances.size() == static_cast<std::size_t>(std::ceil(std::log2(peers))));
  }
}

}  // namespace starling::optim
