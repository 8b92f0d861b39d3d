#include "peer/swarm/swarm_plan_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "cuda/device_choice.h"
#include "peer/config/config_keys.h"
#include "peer/config/traffic_plan.h"
#include "peer/io/file_io.h"
#include "peer/io/json_fields.h"
#include "peer/simulate/virtual_network.h"

namespace starling::peer {

namespace {

constexpr std::size_t kFileBytesMax = std::size_t{1} << 20;
constexpr std::size_t kMeasuredBytesMax = std::size_t{16} << 20;
constexpr std::size_t kNameBytesMax = 48;
constexpr double kBitsPerByte = 8;
constexpr double kMbitMax = 1e6;  // as [bandwidth] has it

Error invalid_file(std::string message) {
  return Error(ErrorCode::kInvalidConfig, std::move(message));
}

const std::vector<std::string> kKeys{
    "name",        "count",         "tokens_per_second", "memory_gb", "gpu_memory_gb",
    "upload_mbit", "download_mbit", "round_trip_ms",     "region",    "gigabytes_per_day",
    "quiet_hours", "measured"};

// Reads one table and notes all that is wrong with it.
class MachineReader {
 public:
  MachineReader(std::string_view file, const toml::table& table, std::vector<std::string>& problems)
      : file_(file), table_(table), problems_(problems) {}

  PlanMachine read(const std::filesystem::path& folder) {
    PlanMachine machine;
    machine.name = text("name");
    if (!is_plain_name(machine.name) || machine.name.size() > kNameBytesMax) {
      complain("name",
               "must be up to 48 letters, digits, '.', '_' and '-', and begin with a letter "
               "or digit");
    }
    const double count = number("count", 1, kPlannedMax).value_or(1);
    machine.count = static_cast<std::uint32_t>(count);
    if (count != std::floor(count)) complain("count", "must be an integer");
    read_speed(machine);
    machine.memory_gb = number("memory_gb", 1e-3, 1e6);
    machine.gpu_memory_gb = number("gpu_memory_gb", 1e-3, 1e6);
    machine.upload_mbit = number("upload_mbit", 0.001, kMbitMax).value_or(0);
    machine.download_mbit = number("download_mbit", 0.001, kMbitMax).value_or(0);
    machine.round_trip_ms = number("round_trip_ms", 0, 1e6);
    read_region(machine);
    machine.gigabytes_per_day = number("gigabytes_per_day", 0, 1e6).value_or(0);
    machine.quiet_hours = text("quiet_hours");
    if (auto quiet = parse_quiet_hours(machine.quiet_hours); !quiet.ok()) {
      complain("quiet_hours", quiet.error().message());
    } else if (quiet.value() && quiet.value()->always()) {
      complain("quiet_hours", "leave no time for exchanges: such a machine trains alone");
    }
    read_measured(machine, folder);
    for (const auto& [key, node] : table_) reject_unknown(key.str());
    return machine;
  }

 private:
  void read_speed(PlanMachine& machine) {
    const toml::node* node = table_.get("tokens_per_second");
    if (node != nullptr && node->is_string()) {
      if (node->as_string()->get() != "measure") {
        complain("tokens_per_second", "must be a number, or \"measure\" for this machine's own");
      }
      return;
    }
    machine.tokens_per_second = number("tokens_per_second", 1e-3, 1e12);
    measures_ = node == nullptr;
  }

  void read_region(PlanMachine& machine) {
    const std::string region = text("region");
    if (region.empty()) return;
    const auto found = std::find(kRegionNames.begin(), kRegionNames.end(), region);
    if (found == kRegionNames.end()) {
      return complain("region",
                      fmt::format("\"{}\" is none of {}", region, fmt::join(kRegionNames, ", ")));
    }
    machine.region = static_cast<std::size_t>(found - kRegionNames.begin());
    if (machine.round_trip_ms) complain("region", "has round trips of its own: drop round_trip_ms");
  }

  void read_measured(PlanMachine& machine, const std::filesystem::path& folder) {
    const toml::node* node = table_.get("measured");
    if (node != nullptr) {
      const toml::array* files = node->as_array();
      if (files == nullptr || !files->is_homogeneous<std::string>()) {
        return complain("measured", "must be an array of file names");
      }
      for (const toml::node& element : *files) {
        const std::filesystem::path path = folder / element.as_string()->get();
        auto json = read_text(path, kMeasuredBytesMax);
        Status read =
            json.ok() ? add_measured(json.value(), machine) : Status(std::move(json).error());
        if (!read.ok()) complain("measured", path.string() + ": " + read.error().message());
      }
    }
    if (measures_ && !machine.tokens_per_second) {
      complain(
          "tokens_per_second",
          "is missing: say a number, \"measure\" for this machine's own, or name the output of "
          "'starling bench step CONFIG --json' in measured");
    }
  }

  void reject_unknown(std::string_view key) {
    if (std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end()) return;
    const std::string near = nearest_word(key, kKeys);
    complain(key, near.empty() ? fmt::format("is unknown; there are {}", fmt::join(kKeys, ", "))
                               : fmt::format("is unknown; did you mean '{}'?", near));
  }

  std::optional<double> number(std::string_view key, double first, double last) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return std::nullopt;
    const auto value = node->is_number() ? node->value<double>() : std::nullopt;
    // So that a NaN is out of range.
    if (value && *value >= first && *value <= last) return value;
    complain(key, fmt::format("must be a number from {} to {}", first, last));
    return std::nullopt;
  }

  std::string text(std::string_view key) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return {};
    if (node->is_string()) return node->as_string()->get();
    complain(key, "must be a string");
    return {};
  }

  void complain(std::string_view key, std::string_view what) {
    problems_.push_back(
        fmt::format("{}:{}: [[machine]] {} {}", file_, table_.source().begin.line, key, what));
  }

  std::string_view file_;
  const toml::table& table_;
  std::vector<std::string>& problems_;
  bool measures_ = false;  // no speed was said
};

void read_machines(const toml::table& root, std::string_view name,
                   const std::filesystem::path& folder, PlanFile& plan,
                   std::vector<std::string>& problems) {
  const toml::array* machines = root.get_as<toml::array>("machine");
  if (machines == nullptr || machines->empty()) {
    return problems.push_back(
        fmt::format("{}: describes no machine: add a table [[machine]]", name));
  }
  std::set<std::string> names;
  std::uint64_t count = 0;
  for (const toml::node& node : *machines) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      problems.push_back(fmt::format("{}: 'machine' must be tables: [[machine]]", name));
      continue;
    }
    plan.machines.push_back(MachineReader(name, *table, problems).read(folder));
    const PlanMachine& machine = plan.machines.back();
    count += machine.count;
    if (!names.insert(machine.name).second) {
      problems.push_back(fmt::format("{}: two machines have the name \"{}\"", name, machine.name));
    }
  }
  if (count > kPlannedMax) {
    problems.push_back(fmt::format("{}: {} machines are more than {}: lower their count", name,
                                   count, kPlannedMax));
  }
}

// The figures of the checks of this name, by `starling doctor --json`.
std::vector<double> figures_of(const nlohmann::json& report, const char* figure) {
  std::vector<double> found;
  const nlohmann::json& groups = field(report, "groups");
  if (!groups.is_array()) return found;
  for (const nlohmann::json& group : groups) {
    const nlohmann::json& findings = field(group, "findings");
    if (!findings.is_array()) continue;
    for (const nlohmann::json& finding : findings) {
      if (const auto value = number(field(finding, "figures"), figure)) found.push_back(*value);
    }
  }
  return found;
}

}  // namespace

Status add_measured(std::string_view json, PlanMachine& machine) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (field(parsed, "bench") == "step") {
    const auto speed = number(field(parsed, "tokens_per_second"), "median");
    if (!speed || !(*speed > 0)) return invalid_file("has no tokens_per_second");
    if (!machine.tokens_per_second) machine.tokens_per_second = speed;
    return ok_status();
  }
  if (!field(parsed, "groups").is_array()) {
    return invalid_file(
        "is neither of 'starling bench step --json' nor of 'starling doctor --json'");
  }
  const auto memory = figures_of(parsed, "memory_available_bytes");
  if (!memory.empty() && memory.front() > 0 && !machine.memory_gb) {
    machine.memory_gb = memory.front() / 1e9;
  }
  const auto on_gpu = figures_of(parsed, "gpu_memory_available_bytes");
  if (!on_gpu.empty() && on_gpu.front() > 0 && !machine.gpu_memory_gb) {
    const auto free = static_cast<std::size_t>(on_gpu.front());  // less what CUDA takes
    machine.gpu_memory_gb = static_cast<double>(cuda::memory_for(free)) / 1e9;
  }
  const auto trips = figures_of(parsed, "round_trip_ms");
  if (!trips.empty() && !machine.round_trip_ms && !machine.region) {
    machine.round_trip_ms = std::clamp(
        std::accumulate(trips.begin(), trips.end(), 0.0) / static_cast<double>(trips.size()), 0.0,
        1e6);
  }
  const auto rates = figures_of(parsed, "fetched_bytes_per_second");
  if (!rates.empty() && machine.download_mbit == 0) {
    const double most = *std::max_element(rates.begin(), rates.end());
    if (most > 0) {
      machine.download_mbit = std::min(most * kBitsPerByte / 1e6, kMbitMax);
      machine.download_measured = true;
    }
  }
  return ok_status();
}

Result<PlanFile> parse_plan_file(std::string_view text, std::string_view name,
                                 const std::filesystem::path& folder) {
  toml::table root;
  try {
    root = toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    return invalid_file(
        fmt::format("{}:{}: {}", name, error.source().begin.line, error.description()));
  }
  PlanFile plan;
  std::vector<std::string> problems;
  for (const auto& [key, node] : root) {
    if (key.str() == "config" || key.str() == "machine") continue;
    problems.push_back(fmt::format("{}:{}: unknown key '{}': there are config and [[machine]]",
                                   name, node.source().begin.line, key.str()));
  }
  const auto config = root["config"].value<std::string>();
  if (!config || config->empty()) {
    problems.push_back(
        fmt::format("{}: config must name the configuration of the run, like "
                    "config = \"peer.toml\"",
                    name));
  } else {
    plan.config = folder / *config;
  }
  read_machines(root, name, folder, plan, problems);
  if (!problems.empty()) return invalid_file(fmt::format("{}", fmt::join(problems, "\n")));
  return plan;
}

bool describes_machines(const std::filesystem::path& file) {
  auto text = read_text(file, kFileBytesMax);
  if (!text.ok()) return true;
  try {
    const toml::table root = toml::parse(text.value());
    return root.contains("config") || root.contains("machine");
  } catch (const toml::parse_error&) {
    return true;
  }
}

Result<PlanFile> load_plan_file(const std::filesystem::path& file) {
  auto text = read_text(file, kFileBytesMax);
  if (!text.ok()) return std::move(text).error().with_context("plan");
  return parse_plan_file(text.value(), file.string(), file.parent_path());
}

}  // namespace starling::peer
