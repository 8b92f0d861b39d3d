// A description of machines and lines, for `starling plan`: a TOML file that names the
// configuration of the run and has a table for each kind of machine (configs/plan.toml).
//
// What is not said can come from `measured`: files that `starling bench step --json` and
// `starling doctor --json` have written there. Errors (kInvalidConfig) name file, machine and key,
// all of them at once. Plain values; blocking.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace starling::peer {

struct PlanMachine {
  static constexpr double kRoundTripMs = 80;

  std::string name;
  std::uint32_t count = 1;                    // such machines
  std::optional<double> tokens_per_second;    // empty: to be measured here
  std::optional<double> memory_gb;            // that a peer may take; empty: enough for anything
  std::optional<double> gpu_memory_gb;        // it computes on a GPU, of which it may take so much
  double upload_mbit = 0, download_mbit = 0;  // that it may take; 0: all there is
  std::optional<double> round_trip_ms;        // to others of that distance
  std::optional<std::size_t> region;          // of kRegionNames; then its table has the delays
  bool download_measured = false;             // and so not a limit that somebody set
  double gigabytes_per_day = 0;               // both directions; 0: no limit
  std::string quiet_hours;                    // as in [bandwidth]
};

struct PlanFile {
  std::filesystem::path config;  // of the run
  std::vector<PlanMachine> machines;
};

inline constexpr std::uint32_t kPlannedMax = 4096;  // machines together

Result<PlanFile> load_plan_file(const std::filesystem::path& file);
// `folder`: what paths in it are relative to; `name` stands in errors.
Result<PlanFile> parse_plan_file(std::string_view text, std::string_view name,
                                 const std::filesystem::path& folder);

// Whether a file is such a description, and not the configuration of a peer. One that cannot be
// read may be: parse_plan_file() says what is wrong with it.
bool describes_machines(const std::filesystem::path& file);

// What one file of measurements says of the machine where it was made, for what is not known yet.
Status add_measured(std::string_view json, PlanMachine& machine);

}  // namespace starling::peer
