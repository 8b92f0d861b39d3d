#include "tests/support/swarm_run.h"

#include <cstdlib>

namespace starling::gossip {
namespace {

// Liveness is owed within these, in virtual time. The first covers pings, suspicion and redialling
// of everybody by everybody after any partition, and the slowest trainer's round.
constexpr Duration kWholeWithin = std::chrono::seconds(180);
constexpr Duration kRestSlack = std::chrono::seconds(120);
constexpr double kTokenSpreadMax = 0.1;
constexpr Duration kGlance = std::chrono::seconds(1);

}  // namespace

SwarmRun run_swarm(const SimOptions& options) {
  SwarmRun run;
  SimNetwork net(options);
  net.run_for(options.faulty_time);
  net.heal();
  const Instant healed = net.now();
  const auto is_whole = [&net] {
    return net.membership_agrees() && net.everybody_mixed() &&
           net.token_spread() <= kTokenSpreadMax;
  };
  while (!is_whole() && net.now() - healed < kWholeWithin) net.run_for(kGlance);
  run.whole_after = net.now() - healed;
  run.token_spread = net.token_spread();
  if (run.whole_after >= kWholeWithin) run.failures.push_back("not whole: " + net.unsettled());

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
  run.trace = net.trace_hash();
  return run;
}

std::string replay_command(std::uint64_t seed) {
  return "replay: STARLING_SIM_SEED=" + std::to_string(seed) + " ctest -R swarm_sim -V";
}

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace starling::gossip
