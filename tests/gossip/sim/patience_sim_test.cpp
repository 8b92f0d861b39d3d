// Patience on hard lines, with real cores in virtual time.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/support/swarm_run.h"

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct Sums {
  std::uint64_t fenced = 0, resumed = 0, timed_out = 0, accepted = 0, completed = 0;
};

Sums sums(const SimNetwork& net) {
  Sums sums;
  for (const std::uint32_t peer : net.live()) {
    const CoreStats stats = net.core(peer).stats();
    sums.fenced += stats.attempts_fenced;
    sums.resumed += stats.attempts_resumed;
    sums.timed_out += stats.offers_timed_out;
    sums.accepted += stats.offers_accepted;
    sums.completed += stats.exchanges_completed;
  }
  return sums;
}

void end_well(SimNetwork& net) {
  net.close_exchanges();
  const Instant closed = net.now();
  while (!net.settled() && net.now() - closed < minutes(60)) net.run_for(seconds(1));
  CHECK(net.settled());
  net.audit();
  for (const std::string& violation : net.violations()) FAIL_CHECK(violation);
}

}  // namespace

TEST_CASE("1 Mbit/s and 300 ms carry stripes of 1 MiB without a single fenced attempt") {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    CAPTURE(seed);
    SimOptions options;
    options.seed = seed;
    options.peers = 4;
    options.seed_peers = 1;
    options.stripes = {6, 4};
    options.latency = milliseconds(300);
    options.faults.bulk_time = milliseconds(8389);  // 2^20 bytes at 10^6 bits a second
    options.publish_every = seconds(60);
    options.speed_spread = 3;
    SimNetwork net(options);
    net.run_for(minutes(60));
    const Sums sum = sums(net);
    MESSAGE("seed " << seed << ": completed on either side " << sum.completed);
    CHECK(sum.fenced == 0);
    CHECK(sum.resumed == 0);
    CHECK(sum.timed_out == 0);
    CHECK(sum.completed > 20);
    CHECK(net.stats()[SimCount::kExchangesPartial] == 0);
    CHECK(net.stats()[SimCount::kExchangesFailed] == 0);
    end_well(net);
  }
}

TEST_CASE("exchanges complete over connections that break every few seconds") {
  Sums all;
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    CAPTURE(seed);
    SimOptions options;
    options.seed = seed;
    options.peers = 4;
    options.seed_peers = 1;
    options.stripes = {16, 16};
    options.latency = milliseconds(30);
    options.faults.bulk_time = milliseconds(200);
    // Twelve connections, one broken every 250 ms: each breaks every three seconds, half of them
    // so that nobody notices. An exchange takes longer than that.
    options.faults.breaks_every = milliseconds(250);
    options.publish_every = seconds(10);
    options.speed_spread = 2;
    SimNetwork net(options);
    net.run_for(minutes(20));
    const Sums sum = sums(net);
    MESSAGE("seed " << seed << ": exchanges accepted " << sum.accepted
                    << ", completed on either side " << sum.completed << ", attempts " << sum.fenced
                    << " fenced, " << sum.resumed << " resumed");
    CHECK(sum.resumed > 0);
    all.accepted += sum.accepted;
    all.completed += sum.completed;
    net.heal();
    end_well(net);
  }
  // Of a single seed between 0.82 and 0.93, as chance has it.
  CHECK(static_cast<double>(all.completed) > 0.85 * 2 * static_cast<double>(all.accepted));
}

}  // namespace starling::gossip
