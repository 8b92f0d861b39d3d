#include "tests/support/swarm_run.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/assert.h"
#include "gossip/membership.h"
#include "gossip/peer_table.h"

namespace starling::gossip {
namespace {

// Liveness is owed within these, in virtual time. The first covers pings, suspicion and redialling
// of everybody by everybody after any partition, and the slowest trainer's round.
constexpr Duration kWholeWithin = std::chrono::seconds(180);
// The end of one that nobody can dial may be noticed by nothing but the age of its records.
constexpr Duration kUndialableMissed = std::chrono::seconds(60);
// Tables full of peers that were invented slow down everything that membership does.
constexpr Duration kInventedSlack = std::chrono::seconds(300);
constexpr Duration kRestSlack = std::chrono::seconds(120);
// A message has room for a dozen changes among members, and everybody tells each a dozen times and
// more, to two others in an interval. It has room for four counts of tokens drawn from all there
// are, one for every process that ever was. So where everything has changed, or somebody begins
// anew, news of one more takes about two thirds of an interval; of some there is room beside all
// else.
constexpr std::uint64_t kToldAtOnce = 100;
constexpr double kIntervalsPerNews = 2.0 / 3;
constexpr double kTokenSpreadMax = 0.1;  // between token clocks
constexpr double kTokenSpreadPerPeer = 0.1 / 1000;
constexpr double kTokenSpreadOfSamples = 0.2;  // where they rest on the sketch (token_map.h)
// Of what the honest have trained: what those train that have just ended is guessed until it is
// known, which in a short run is up to a third. A lie is a hundred times that. Less is no fault:
// where all crash nobody remembers.
constexpr double kTokenExcessMax = 1;
// Larger swarms than a table holds are counted by the sketch, which nobody signs.
double token_excess_max(const SimOptions& options) {
  const bool sketched = options.config.peers_max < options.peers;
  return sketched && options.faults.hostile > 0 ? TokenShares::kRatio : kTokenExcessMax;
}
constexpr Duration kGlance = std::chrono::seconds(1);

Duration news_of(std::uint64_t count, const GossipConfig& config) {
  const auto beyond = static_cast<double>(count - std::min(count, kToldAtOnce));
  return from_seconds(beyond * kIntervalsPerNews * to_seconds(config.ping_interval));
}

// Views agree, and everybody has mixed.
Duration whole_within(const SimOptions& options) {
  const Duration news = news_of(options.peers, options.config);
  const bool nat = options.faults.nat > 0;
  const Duration undialable = std::max<Duration>(PeerTable::kStale / 3, news) + kUndialableMissed;
  // A newcomer that gets nothing gives up and trains.
  const StateConfig& state = options.config.state;
  return kWholeWithin + news + (nat ? undialable : Duration{}) +
         (options.fetch_states ? state.wait + state.patience : Duration{}) +
         (options.faults.hostile > 0 ? kInventedSlack : Duration{});
}

// How much disagreement (SimNetwork::disagreement()) may be left of `before`, among so many peers.
//
// A quarter of it is gone when everybody has mixed once or twice. Where exchanges are clipped, that
// may take hours: in two of them the values of a peer move by twice the least radius that anybody
// wants, and the root mean square of all distances falls by as much at the least. Training goes on
// meanwhile, in steps of a thousandth of what the peers began with, and keeps them apart by a few
// hundredths at most, however well they mix: below that nothing is owed. Without mixing nothing
// falls: the steps only add to it.
double agreed_at(const SimOptions& options, double before, std::size_t peers) {
  constexpr double kLeft = 0.75;
  constexpr double kRadii = 2;
  constexpr double kAsGoodAsOne = 0.02;  // of what the values began with
  std::size_t count = 0;                 // of values that a peer has
  for (const std::uint32_t stripes : options.stripes) count += stripes * StripeValues{}.size();
  const auto values = static_cast<double>(count * peers);
  const double distance = std::sqrt(before / std::max(values, 1.0));
  const double clipped = distance - kRadii * options.clip_radius;
  const double least = kAsGoodAsOne * static_cast<double>(options.initial_spread);
  const bool clips = options.clip_radius > 0 && clipped > 0;
  return std::max({kLeft * before, clips ? values * clipped * clipped : 0, values * least * least});
}

// Where all that are left are newcomers, nobody moves until the others have been gone for long.
Duration left_alone(const SimNetwork& net) {
  const std::vector<std::uint32_t> live = net.live();
  const bool counts = std::any_of(
      live.begin(), live.end(), [&net](std::uint32_t peer) { return net.core(peer).weight() > 0; });
  return counts ? Duration{} : Membership::kOrphanedAfter + 2 * Membership::kLookAtTokensEvery;
}

double token_spread_max(const SimOptions& options) {
  if (options.peers > options.config.peers_max) return kTokenSpreadOfSamples;
  return kTokenSpreadMax + kTokenSpreadPerPeer * options.peers;
}

// No more goes wrong than a network does to messages every day.
bool is_healthy(const SimFaults& faults) {
  constexpr double kLossMax = 0.01;
  const Duration none{};
  return faults.loss <= kLossMax && faults.delay_spike == 0 && faults.starved == 0 &&
         faults.clock_drift == 0 && faults.nat == 0 && faults.hostile == 0 &&
         faults.breaks_every == none && faults.partitions_every == none &&
         faults.crashes_every == none && faults.pauses_every == none &&
         faults.regions_every == none && faults.clogs_every == none;
}

char to_run_again[1024];  // read by a signal handler

void tell_and_die(int signal) {
  static_cast<void>(::write(STDERR_FILENO, to_run_again, std::strlen(to_run_again)));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

AbortTeller::AbortTeller(const std::string& replay) {
  const std::string text = "\nto run that again: " + replay + "\n";
  text.copy(to_run_again, sizeof(to_run_again) - 1);
  to_run_again[std::min(text.size(), sizeof(to_run_again) - 1)] = 0;
  struct sigaction action {};
  action.sa_handler = tell_and_die;
  STARLING_ASSERT(sigaction(SIGABRT, &action, &before_) == 0);
}

AbortTeller::~AbortTeller() { sigaction(SIGABRT, &before_, nullptr); }

SwarmRun run_swarm(const SimOptions& options) {
  SwarmRun run;
  SimNetwork net(options);
  net.run_for(options.faulty_time);
  net.heal();
  const Instant healed = net.now();
  const double agreed = agreed_at(options, net.disagreement(), net.live().size());
  const double spread_max = token_spread_max(options);
  const auto is_whole = [&net] { return net.membership_agrees() && net.everybody_mixed(); };
  const auto is_counted = [&net, &is_whole, spread_max] {
    return net.token_spread() <= spread_max && is_whole();
  };
  const auto comes_within = [&net, healed](Duration within, const auto& holds) {
    while (!holds() && net.now() - healed < within) net.run_for(kGlance);
    return net.now() - healed < within;
  };
  const bool whole = comes_within(whole_within(options), is_whole);
  run.whole_after = net.now() - healed;
  const std::uint64_t processes = options.peers + net.stats()[SimCount::kCrashes];
  const Duration counted_within = whole_within(options) + news_of(processes, options.config);
  const bool counted = comes_within(counted_within, is_counted);
  run.token_spread = net.token_spread();
  run.token_excess = net.token_excess();
  if (run.token_excess > token_excess_max(options)) {
    run.failures.push_back("token clocks are ahead by " + std::to_string(run.token_excess));
  }
  if (!whole || !counted) run.failures.push_back("not whole: " + net.unsettled());
  const auto falls = [&net, agreed] { return net.disagreement() <= agreed; };
  if (!comes_within(counted_within + left_alone(net), falls)) {
    run.failures.push_back("weights do not come together: " + std::to_string(net.disagreement()) +
                           " where " + std::to_string(agreed) + " is owed");
  }

  net.close_exchanges();
  const Instant closed = net.now();
  const Duration rest_within = options.config.initiator_gives_up + kRestSlack;
  while (!net.settled() && net.now() - closed < rest_within) net.run_for(kGlance);
  run.settled_after = net.now() - closed;
  if (run.settled_after >= rest_within) run.failures.push_back("not at rest: " + net.unsettled());

  net.audit();
  const std::vector<std::string>& violations = net.violations();
  run.failures.insert(run.failures.end(), violations.begin(), violations.end());
  run.stats = net.stats();
  if (const std::uint64_t buried = run.stats[SimCount::kBuried];
      buried > 0 && is_healthy(options.faults)) {
    run.failures.push_back("buried in a healthy network: " + std::to_string(buried));
  }
  run.trace = net.trace_hash();
  return run;
}

SimOptions with_samples(SimOptions options, std::uint32_t peers_max) {
  options.config.peers_max = peers_max;
  options.config.connections_max = std::max(1U, peers_max / 4);
  return options;
}

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace starling::gossip
