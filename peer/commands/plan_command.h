// `starling plan`: describes a swarm of these machines before there is one
// (peer/swarm/swarm_plan.h), as a table, as JSON, and as a configuration for each machine. A
// machine whose speed is "measure" is this one: it trains for some seconds
// (peer/bench/bench_step.h). Blocking; for the command line.
#pragma once

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "base/result.h"
#include "peer/swarm/swarm_plan.h"

namespace starling::peer {

struct PlanOptions {
  std::filesystem::path file{};
  std::vector<std::string> overrides{};  // "section.key=value", of the configuration that it names
  std::filesystem::path write{};         // folder of new files NAME.toml; empty: none
  bool json = false;
};

// An error where something does not fit, after all of the rest was printed. Then nothing is
// written.
Status run_plan(const PlanOptions& options, std::ostream& out);

std::string plan_text(const PeerConfig& config, const SwarmPlan& plan);
// The lines in which the configuration of such a machine differs from that of the run.
std::string plan_lines(const PeerConfig& config, const SwarmPlan& plan, const MachinePlan& kind);

}  // namespace starling::peer
