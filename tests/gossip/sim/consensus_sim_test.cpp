// No training, only mixing: how fast do the peers' values meet? For the mean of a pair drawn
// uniformly from N peers, the sum of squared distances to the mean shrinks by the expected factor
// 1 - 1/(N-1) per exchange (Boyd, Ghosh, Prabhakar, Shah: "Randomized gossip algorithms", IEEE
// Trans. Information Theory 52(6), 2006, for the complete graph). Trainers that publish at regular
// intervals are a little better than such a draw, because no peer is left out for long; a perfect
// matching in every round would reach 1.42 times the exponent.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "gossip/sim/sim_network.h"

namespace starling::gossip {
namespace {

SimOptions consensus_options(std::uint64_t seed, std::uint32_t peers) {
  SimOptions options;
  options.seed = seed;
  options.peers = peers;
  options.stripes = {2, 2};
  options.initial_spread = std::int64_t{1} << 50;
  options.local_spread = 0;
  options.speed_spread = 2;
  options.publish_every = std::chrono::seconds(2);
  options.faulty_time = std::chrono::minutes(5);
  options.config.rate_power = 0;  // the expected rate is that of equal weights
  options.config.stripe_timeout = std::chrono::seconds(3);
  options.config.query_after = std::chrono::seconds(2);
  options.config.responder_gives_up = std::chrono::minutes(2);
  options.config.initiator_gives_up = std::chrono::minutes(3);
  return options;
}

// Measured contraction over the expected one, in the exponent: 1 is perfect mixing. One pair
// averaged is two stripes applied, and the stripes share the disagreement equally.
double contraction(const SimOptions& options, SimStats& stats) {
  SimNetwork net(options);
  net.run_for(std::chrono::seconds(20));  // until everybody knows everybody
  const double before = net.disagreement();
  const std::uint64_t applied_before = net.stats()[SimCount::kStripesApplied];
  net.run_for(std::chrono::seconds(40));
  const double after = net.disagreement();
  const auto applied = static_cast<double>(net.stats()[SimCount::kStripesApplied] - applied_before);
  double stripes = 0;
  for (const std::uint32_t count : options.stripes) stripes += count;
  const double pairs = applied / 2 / stripes;
  const double expected = -pairs * std::log1p(-1.0 / (options.peers - 1));

  net.heal();
  net.close_exchanges();
  while (!net.settled() && to_seconds(net.now().time_since_epoch()) < 600) {
    net.run_for(std::chrono::seconds(1));
  }
  net.audit();
  for (const std::string& violation : net.violations()) FAIL_CHECK(violation);
  stats = net.stats();
  const double measured = std::log(before / after);
  MESSAGE(options.peers << " peers: " << pairs << " exchanges per stripe, disagreement " << before
                        << " -> " << after << ", exponent " << measured << ", expected "
                        << expected);
  return measured / expected;
}

}  // namespace

TEST_CASE("two sides move as their weights have it, and conserve their weighted sum exactly") {
  const StripeValues half{1000, -77, 3, 1'000'000'007};
  for (int initiator = 0; initiator <= 8; ++initiator) {
    for (int responder = 0; responder <= 8; ++responder) {
      CAPTURE(initiator);
      CAPTURE(responder);
      PairTerms terms;
      terms.initiator_weight = static_cast<float>(initiator) / 8;
      terms.responder_weight = static_cast<float>(responder) / 8;
      const StripeValues begins = sim_change(terms, Role::kInitiator, half);
      const StripeValues answers = sim_change(terms, Role::kResponder, half);
      const int sum = initiator + responder;
      for (std::size_t i = 0; i < half.size(); ++i) {
        CHECK(initiator * begins[i] + responder * answers[i] == 0);
        const double whole = sum > 0 ? 2 * static_cast<double>(half[i]) : 0;
        const auto begun = static_cast<double>(begins[i]),
                   answered = static_cast<double>(answers[i]);
        CHECK(std::abs(begun - whole * responder / std::max(sum, 1)) <= sum);
        CHECK(std::abs(answered + whole * initiator / std::max(sum, 1)) <= sum);
      }
    }
  }
  PairTerms tiny;
  tiny.initiator_weight = 1e-9F;  // has weight all the same
  CHECK(sim_change(tiny, Role::kResponder, half)[0] == -1000 * 2 / 9);
}

TEST_CASE("disagreement contracts at the expected rate, without faults") {
  for (const std::uint32_t peers : {32U, 64U}) {
    CAPTURE(peers);
    SimStats stats;
    const double ratio = contraction(consensus_options(7, peers), stats);
    CHECK(ratio > 0.85);
    CHECK(ratio < 1.45);
    CHECK(stats[SimCount::kExchangesFailed] == 0);
    CHECK(stats[SimCount::kStripesCompensated] == 0);
  }
}

TEST_CASE("disagreement contracts at the expected rate per exchange under loss and reordering") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    SimOptions options = consensus_options(seed, 48);
    options.faults.loss = 0.05;
    options.faults.duplication = 0.1;
    options.faults.lasting = 0.5;
    options.faults.delay_spike = 0.02;
    options.faults.spike_max = std::chrono::seconds(10);
    options.faults.reordering = true;
    options.faults.mixer_refusal = 0.02;
    options.faults.breaks_every = std::chrono::milliseconds(200);
    SimStats stats;
    const double ratio = contraction(options, stats);
    CHECK(ratio > 0.85);
    CHECK(ratio < 1.45);
    CHECK(stats[SimCount::kLost] > 0);
    CHECK(stats[SimCount::kOvertaken] > 0);
    CHECK(stats[SimCount::kExchangesCompleted] > 0);
  }
}

}  // namespace starling::gossip
