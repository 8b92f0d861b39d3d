#include "peer/simulate/simulate.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "peer/files/run_folder.h"
#include "peer/io/clock.h"
#include "peer/io/file_io.h"
#include "peer/machine/free_memory.h"
#include "peer/simulate/simulate_plan.h"
#include "peer/simulate/simulate_report.h"
#include "peer/simulate/simulate_swarm.h"

namespace starling::peer {

namespace {

// A new file, of the first name of its kind that is free: simulations are there to be compared.
std::filesystem::path new_file(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  std::filesystem::path path = folder / "simulate.jsonl";
  for (int next = 2; !FileHandle::open(path, O_WRONLY | O_CREAT | O_EXCL).ok(); ++next) {
    if (!std::filesystem::exists(path, failure)) break;  // whoever opens it tells why
    path = folder / fmt::format("simulate-{}.jsonl", next);
  }
  return path;
}

Result<std::ofstream> open_out(const PeerConfig& config, std::filesystem::path& path) {
  path = config.simulate.out;
  if (path.empty()) path = new_file(std::filesystem::path(config.run.folder) / config.run.name);
  std::error_code failure;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), failure);
  std::ofstream file(path, std::ios::trunc);
  if (!file) {
    return Error(ErrorCode::kIo, "cannot write " + path.string() + " (simulate.out)");
  }
  return file;
}

int threads_of(const SimulateSettings& settings) {
  return settings.threads > 0 ? static_cast<int>(settings.threads)
                              : default_threads(processor_facts());
}

std::string_view why_ended(const SimulatedSwarm& swarm, const SimulatedMoment& last,
                           const PeerConfig& config) {
  if (swarm.diverged()) return "the loss is no number any more";
  if (swarm.stalled()) return "nobody trains any more";
  return last.tokens >= config.run.total_tokens ? "tokens" : "seconds";
}

}  // namespace

Status run_simulation(const SimulateOptions& options, std::ostream& out) {
  const Instant started = peer::now();
  auto loaded = load_simulation(options.config, options.overrides);
  if (!loaded.ok()) return std::move(loaded).error();
  const PeerConfig& config = loaded.value();
  start_log("starling", config.run.log_level);
  auto plan = simulate_plan(
      config.simulate, static_cast<std::uint64_t>(config.batch.sequences * config.batch.tokens),
      config.run.total_tokens);
  if (!plan.ok()) return std::move(plan).error();
  auto world = open_world(config);
  if (!world.ok()) return std::move(world).error();
  auto swarm = SimulatedSwarm::create(world.value(), plan.value(), threads_of(config.simulate));
  if (!swarm.ok()) return std::move(swarm).error();
  std::filesystem::path path;
  auto file = open_out(config, path);
  if (!file.ok()) return std::move(file).error();
  std::ofstream& lines = file.value();

  const std::size_t parameters = world.value().layout.elements();
  lines << simulation_begin_json(config, parameters).dump() << '\n';
  out << fmt::format("{} virtual peers, {}, {} parameters, to {} tokens\n\n{}",
                     config.simulate.peers, method_name(config.outer.rule.method), parameters,
                     config.run.total_tokens, simulated_header());
  SimulatedMoment last;
  Status ran = swarm.value()->run([&](const SimulatedMoment& moment) {
    lines << simulated_json(moment).dump() << '\n' << std::flush;
    out << simulated_line(moment) << std::flush;
    last = moment;
  });
  if (!ran.ok()) return ran;
  const std::vector<SimulatedLife> lives = swarm.value()->lives();
  for (const SimulatedLife& life : lives) lines << simulated_json(life).dump() << '\n';
  const std::string_view why = why_ended(*swarm.value(), last, config);
  lines << simulation_end_json(why).dump() << '\n' << std::flush;
  if (!lines) return Error(ErrorCode::kIo, "cannot write all of " + path.string());
  out << '\n' << simulated_table(lives, last);
  log_info("simulated {:.1f} s in {:.1f} s, with {:.2f} GB at most; {}", last.seconds,
           seconds_since(started), static_cast<double>(peak_memory()) / 1e9, path.string());
  return ok_status();
}

}  // namespace starling::peer
