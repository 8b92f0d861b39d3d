// Ten times as many newcomers as a swarm has peers come within seconds, and all want its state.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "gossip/sim/sim_network.h"

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint32_t kFounders = 8;
constexpr std::uint32_t kNewcomers = 10 * kFounders;

SimOptions surge(std::uint64_t seed) {
  SimOptions options;
  options.seed = seed;
  options.peers = kFounders + kNewcomers;
  options.fetch_states = true;
  options.config.newcomer_tokens = 10'000;
  options.publish_every = seconds(4);
  options.speed_spread = 4;
  options.faults.loss = 0.01;
  options.faults.bulk_time = milliseconds(50);
  options.surge = kNewcomers;
  options.surge_after = minutes(2);
  options.surge_within = seconds(3);
  return options;
}

std::uint64_t exchanges_of_founders(const SimNetwork& net) {
  std::uint64_t count = 0;
  for (std::uint32_t peer = 0; peer < kFounders; ++peer) {
    count += net.core(peer).stats().exchanges_completed;
  }
  return count;
}

// Of the founders together, in a second.
double rate_of_founders(SimNetwork& net, Duration duration) {
  const std::uint64_t before = exchanges_of_founders(net);
  net.run_for(duration);
  return static_cast<double>(exchanges_of_founders(net) - before) / to_seconds(duration);
}

bool everybody_works(const SimNetwork& net) {
  for (std::uint32_t peer = 0; peer < kFounders + kNewcomers; ++peer) {
    if (net.fetching(peer)) return false;
  }
  return net.live().size() == kFounders + kNewcomers;
}

}  // namespace

TEST_CASE("ten times as many newcomers as peers all get a state, and the swarm goes on meanwhile") {
  const SimOptions options = surge(1);
  SimNetwork net(options);
  net.run_for(options.surge_after - minutes(1));
  const double before = rate_of_founders(net, minutes(1));
  CHECK(net.live().size() == kFounders);

  const Instant came = net.now();
  Duration agreed{}, served{};
  std::size_t most_under_way = 0;
  const std::uint64_t done = exchanges_of_founders(net);
  while (served == Duration{} && net.now() - came < minutes(10)) {
    net.run_for(seconds(1));
    most_under_way = std::max(most_under_way, net.under_way());
    const bool all_here = net.live().size() == kFounders + kNewcomers;
    if (agreed == Duration{} && all_here && net.membership_agrees()) agreed = net.now() - came;
    if (everybody_works(net)) served = net.now() - came;
  }
  const double meanwhile =
      static_cast<double>(exchanges_of_founders(net) - done) / to_seconds(net.now() - came);
  const double after = rate_of_founders(net, minutes(1));
  MESSAGE("views agree after " << to_seconds(agreed) << " s, all are served after "
                               << to_seconds(served) << " s, at most " << most_under_way
                               << " messages under way; exchanges of the founders a second: "
                               << before << " before, " << meanwhile << " meanwhile, " << after
                               << " after");
  CHECK(agreed > Duration{});
  CHECK(served > Duration{});
  CHECK(net.membership_agrees());
  CHECK(net.stats()[SimCount::kBuried] == 0);
  CHECK(net.stats()[SimCount::kStatesFetched] == kNewcomers);
  CHECK(net.stats()[SimCount::kFetchesInVain] == 0);
  CHECK(meanwhile > before / 2);

  net.close_exchanges();
  for (int i = 0; i < 300 && !net.settled(); ++i) net.run_for(seconds(1));
  CHECK_MESSAGE(net.settled(), net.unsettled());
  net.audit();
  for (const std::string& violation : net.violations()) FAIL_CHECK(violation);
  MESSAGE(net.stats().describe());
}

}  // namespace starling::gossip
