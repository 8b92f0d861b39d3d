// Partitions that outlast what peers remember: responders forget deltas in doubt after half an
// hour, initiators after three quarters, and after half an hour a peer that nobody calls takes
// itself for one that nobody can. Nothing is restarted and nobody is told that they are over.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "gossip/sim/sim_network.h"

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint32_t kPeers = 16;

using Cut = std::function<bool(Route)>;

bool is_left(std::uint32_t peer) { return peer % 2 == 0; }

// Of everybody, how many of the others it takes for alive.
std::vector<std::uint64_t> known_alive(const SimNetwork& net) {
  std::vector<std::uint64_t> counts;
  for (const std::uint32_t peer : net.live()) {
    counts.push_back(net.core(peer).stats().peers_alive);
  }
  return counts;
}

// Exchanges that each completed.
std::vector<std::uint64_t> completed(const SimNetwork& net) {
  std::vector<std::uint64_t> counts;
  for (const std::uint32_t peer : net.live()) {
    counts.push_back(net.core(peer).stats().exchanges_completed);
  }
  return counts;
}

SimOptions calm_swarm(std::uint64_t seed) {
  SimOptions options;
  options.seed = seed;
  options.peers = kPeers;
  options.publish_every = seconds(4);
  options.speed_spread = 4;
  options.local_spread = 10'000;
  options.faults.loss = 0.01;
  options.faults.bulk_time = milliseconds(300);  // so that there are exchanges to be cut
  return options;
}

struct Partition {
  Cut cut;
  Duration length;
  std::uint64_t alive_least, alive_most;  // in the views at its end
};

// Runs `net` until `done`, `most` at the longest; how long that was.
template <class Done>
Duration run_until(SimNetwork& net, Duration most, Done&& done) {
  const Instant begun = net.now();
  while (!done() && net.now() - begun < most) net.run_for(seconds(1));
  return net.now() - begun;
}

void check_rests(SimNetwork& net) {
  net.close_exchanges();
  run_until(net, minutes(50), [&] { return net.settled(); });
  CHECK_MESSAGE(net.settled(), net.unsettled());
  net.audit();
  for (const std::string& violation : net.violations()) FAIL_CHECK(violation);
  MESSAGE(net.stats().describe());
}

void check_heals(std::uint64_t seed, const Partition& partition) {
  SimNetwork net(calm_swarm(seed));
  net.run_for(minutes(2));
  REQUIRE(net.membership_agrees());
  net.partition(partition.cut);
  net.run_for(partition.length);
  const auto [least, most] = [&] {
    const std::vector<std::uint64_t> counts = known_alive(net);
    return std::pair(*std::min_element(counts.begin(), counts.end()),
                     *std::max_element(counts.begin(), counts.end()));
  }();
  CHECK(least == partition.alive_least);
  CHECK(most == partition.alive_most);
  const double apart = net.disagreement();
  const std::vector<std::uint64_t> before = completed(net);
  net.mend();
  const Duration agreed = run_until(net, minutes(3), [&] { return net.membership_agrees(); });
  CHECK_MESSAGE(net.membership_agrees(), net.unsettled());
  const Duration together =
      run_until(net, minutes(10), [&] { return net.disagreement() < apart / 4; });
  MESSAGE("views agree after " << to_seconds(agreed) << " s, disagreement " << apart << " -> "
                               << net.disagreement() << " after " << to_seconds(together)
                               << " s more");
  CHECK(net.disagreement() < apart / 4);
  const auto all_exchange = [&] {
    const std::vector<std::uint64_t> after = completed(net);
    return std::equal(after.begin(), after.end(), before.begin(), std::greater<>());
  };
  run_until(net, minutes(3), all_exchange);
  CHECK(all_exchange());
  for (std::uint32_t peer = 0; peer < kPeers; ++peer) {
    CAPTURE(peer);
    CHECK(net.core(peer).self().dialable);
  }
  check_rests(net);
}

}  // namespace

TEST_CASE("halves that were apart for longer than deltas in doubt are kept become one swarm") {
  const Cut halves = [](Route way) { return is_left(way.from) != is_left(way.to); };
  check_heals(1, {halves, minutes(35), kPeers / 2 - 1, kPeers / 2 - 1});
  check_heals(2, {halves, minutes(46), kPeers / 2 - 1, kPeers / 2 - 1});
}

TEST_CASE("half of a swarm that was heard by nobody for longer than half an hour is one of it") {
  const Cut one_way = [](Route way) { return is_left(way.from) && !is_left(way.to); };
  check_heals(3, {one_way, minutes(35), kPeers / 2 - 1, kPeers / 2 - 1});
}

TEST_CASE("one peer that was alone for longer than half an hour comes back by itself") {
  for (const std::uint32_t alone : {0U, kPeers - 1}) {  // a seed, and none
    const Cut cut = [=](Route way) { return (way.from == alone) != (way.to == alone); };
    check_heals(4 + alone, {cut, minutes(35), 0, kPeers - 2});
  }
}

}  // namespace starling::gossip
