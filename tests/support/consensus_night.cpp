// consensus_night: how fast do the values of many peers meet that gossip and do not train? For
// scripts; prints one line of JSON.
//
//   consensus_night --peers 1000 --seed 1 [--rounds 8] [--spread 4] [--view 1024] [--sampler]
//
// Whole protocol cores in the simulator's network, without faults. With --sampler the choice of
// partners alone, out of fixed views, and exchanges that take no time and are never declined: for
// swarms too large for the rest. The arithmetic is the simulator's (SimMixer) in either case.
//
// A round is as many exchanges as there are peers: each begins one, and takes part in two. "factor"
// is what is left of the sum of squared distances to the mean after one, the mean over the rounds,
// which is what theory speaks of (the mean logarithm would be less).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "gossip/peer_sampler.h"
#include "gossip/sim/sim_network.h"

namespace {

using namespace starling;
using namespace starling::gossip;

struct Plan {
  std::uint32_t peers = 100;
  std::uint32_t rounds = 8;
  double spread = 1;  // slowest over fastest period, evenly on a logarithmic scale
  std::uint32_t view = 1024;
  std::uint64_t seed = 1;
  bool sampler = false;
};

// Of the rounds measured.
struct Contraction {
  double ratios = 0;  // sum of what was left after each
  double exchanges = 0;
  double offers = 0, declined = 0;
  double partners = 0;  // of the mean peer, at the end
};

Contraction with_cores(const Plan& plan);
Contraction with_sampler(const Plan& plan);

constexpr Duration kPeriod = std::chrono::seconds(10);  // of the fastest trainer
constexpr std::int64_t kSpread = std::int64_t{1} << 50;

}  // namespace

int main(int count, char** words) {
  Plan plan;
  CLI::App app("How fast the values of many peers meet that gossip and do not train.");
  const auto some = CLI::Range(8U, 1'000'000U);
  app.add_option("--peers", plan.peers)->check(some)->capture_default_str();
  app.add_option("--seed", plan.seed)->capture_default_str();
  app.add_option("--rounds", plan.rounds)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--spread", plan.spread, "Slowest over fastest period")
      ->check(CLI::Range(1.0, 1000.0))
      ->capture_default_str();
  app.add_option("--view", plan.view, "Others that a peer knows at most")
      ->check(some)
      ->capture_default_str();
  app.add_flag("--sampler", plan.sampler, "The choice of partners alone");
  CLI11_PARSE(app, count, words);
  const Contraction seen = plan.sampler ? with_sampler(plan) : with_cores(plan);
  const double begun = seen.exchanges / plan.rounds / plan.peers;
  const double factor = std::exp(std::log(seen.ratios / plan.rounds) / begun);
  std::printf(
      "{\"peers\": %u, \"seed\": %llu, \"spread\": %g, \"view\": %u, \"how\": \"%s\", "
      "\"rounds\": %u, \"factor\": %.5f, \"begun\": %.4f, \"declined\": %.4f, \"partners\": "
      "%.1f}\n",
      plan.peers, static_cast<unsigned long long>(plan.seed), plan.spread, plan.view,
      plan.sampler ? "sampler" : "cores", plan.rounds, factor, begun,
      seen.offers > 0 ? seen.declined / seen.offers : 0, seen.partners);
  return 0;
}

namespace {

// In which all together begin as many exchanges as they are, with periods drawn as SimNetwork does.
Duration round_of(const Plan& plan) {
  const double mean_rate = plan.spread > 1 ? (1 - 1 / plan.spread) / std::log(plan.spread) : 1.0;
  return from_seconds(to_seconds(kPeriod) / mean_rate);
}

// --- whole cores ---

struct Totals {
  double applied = 0, offers = 0, declined = 0, partners = 0;
};

Totals totals(const SimNetwork& net) {
  Totals sum;
  sum.applied = static_cast<double>(net.stats()[SimCount::kStripesApplied]);
  for (const std::uint32_t peer : net.live()) {
    const CoreStats stats = net.core(peer).stats();
    sum.offers += static_cast<double>(stats.offers_sent);
    sum.declined += static_cast<double>(stats.offers_declined);
    sum.partners += static_cast<double>(stats.partners);
  }
  return sum;
}

Contraction with_cores(const Plan& plan) {
  SimOptions options;
  options.seed = plan.seed;
  options.peers = plan.peers;
  options.stripes = {2};
  options.latency = std::chrono::milliseconds(50);
  options.publish_every = kPeriod;
  options.speed_spread = plan.spread;
  options.initial_spread = kSpread;
  options.local_spread = 0;
  options.cut_every = std::chrono::hours(24);
  options.config.peers_max = plan.view;
  SimNetwork net(options);
  net.run_for(std::chrono::seconds(30 + plan.peers / 50));  // until they know each other
  const Totals before = totals(net);
  Contraction found;
  double left = net.disagreement();
  for (std::uint32_t round = 0; round < plan.rounds; ++round) {
    net.run_for(round_of(plan));
    const double now = net.disagreement();
    found.ratios += now / left;
    left = now;
  }
  const Totals after = totals(net);
  // One pair averaged is a stripe applied at either side.
  found.exchanges = (after.applied - before.applied) / 2 / options.stripes[0];
  found.offers = after.offers - before.offers;
  found.declined = after.declined - before.declined;
  found.partners = after.partners / plan.peers;
  return found;
}

// --- the choice of partners alone ---

struct Sampling {
  PeerTable table;
  PeerSampler sampler;
  StripeValues values{};
  Duration period{};
  PeerId last_partner{};
};

// A view of random others, all of them partners.
PeerTable view_of(std::uint32_t self, const Plan& plan, Rng& rng) {
  PeerTable table(plan.view, Duration::zero());
  const std::uint32_t rows = std::min(plan.view, plan.peers - 1);
  while (table.rows().size() < rows) {
    const auto other = rows == plan.peers - 1
                           ? static_cast<std::uint32_t>(table.rows().size() +
                                                        (table.rows().size() >= self ? 1 : 0))
                           : static_cast<std::uint32_t>(rng.below(plan.peers));
    const PeerId id{other + 1ULL};
    if (other == self || table.find(id) != nullptr) continue;
    static_cast<void>(
        table.merge({}, {record_key({id, 1}, 0), {}, Health::kAlive, true, {}, 0}, rng));
    table.find(id)->welcomed = true;
  }
  return table;
}

double disagreement(const std::vector<Sampling>& peers) {
  double sum = 0;
  for (std::size_t value = 0; value < StripeValues{}.size(); ++value) {
    double mean = 0;
    for (const Sampling& peer : peers) mean += static_cast<double>(peer.values[value]);
    mean /= static_cast<double>(peers.size());
    for (const Sampling& peer : peers) {
      sum += std::pow(static_cast<double>(peer.values[value]) - mean, 2);
    }
  }
  return sum;
}

Contraction with_sampler(const Plan& plan) {
  const Conduct nobody_bad;
  const Paces no_distances;
  Rng rng(plan.seed);
  std::vector<Sampling> peers;
  std::priority_queue<std::pair<Instant, std::uint32_t>,
                      std::vector<std::pair<Instant, std::uint32_t>>, std::greater<>>
      due;
  for (std::uint32_t i = 0; i < plan.peers; ++i) {
    Sampling peer{view_of(i, plan, rng), PeerSampler(0), {}, {}, {}};
    for (std::int64_t& value : peer.values) {
      value = static_cast<std::int64_t>(rng.below(2 * kSpread)) - kSpread;
    }
    peer.period = from_seconds(to_seconds(kPeriod) * std::pow(plan.spread, rng.unit()));
    due.emplace(Instant{} + from_seconds(to_seconds(peer.period) * rng.unit()), i);
    peers.push_back(std::move(peer));
  }
  Contraction found;
  double left = disagreement(peers);
  for (std::uint32_t round = 0; round < plan.rounds; ++round) {
    for (const Instant end = Instant{} + (round + 1) * round_of(plan); due.top().first < end;) {
      const auto [now, index] = due.top();
      due.pop();
      Sampling& peer = peers[index];
      due.emplace(now + from_seconds(to_seconds(peer.period) * (0.8 + 0.4 * rng.unit())), index);
      const PeerSampler::Known known{peer.table, nobody_bad, no_distances, peer.last_partner};
      const PeerId partner = *peer.sampler.sample(now, known, {}, rng);
      peer.last_partner = partner;
      StripeValues& theirs = peers[static_cast<std::size_t>(partner.value - 1)].values;
      const StripeValues half = half_difference(peer.values, theirs);
      add(peer.values, 1, half);
      add(theirs, -1, half);
      ++found.exchanges;
    }
    const double now = disagreement(peers);
    found.ratios += now / left;
    left = now;
  }
  for (const Sampling& peer : peers) {
    found.partners += static_cast<double>(peer.table.rows().size()) / plan.peers;
  }
  return found;
}

}  // namespace
