// `starling simulate`: a whole swarm of virtual peers in this process. The file has what it tells
// (simulate_report.h), standard output the same as tables.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "base/result.h"

namespace starling::peer {

struct SimulateOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;
};

Status run_simulation(const SimulateOptions& options, std::ostream& out);

}  // namespace starling::peer
