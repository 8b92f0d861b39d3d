#include "peer/commands/plan_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "peer/bench/bench_step.h"
#include "peer/commands/memory_command.h"
#include "peer/config/config.h"
#include "peer/io/file_io.h"
#include "peer/io/human_text.h"
#include "peer/io/text_table.h"

namespace starling::peer {

namespace {

constexpr double kMeasureSeconds = 3;

Error invalid(std::string message) { return Error(ErrorCode::kInvalidConfig, std::move(message)); }

Status measure_speeds(const PlanOptions& options, PlanFile& file) {
  std::optional<double> speed;
  for (PlanMachine& machine : file.machines) {
    if (machine.tokens_per_second) continue;
    if (!speed) {
      StepBenchOptions bench;
      bench.config = file.config;
      bench.overrides = options.overrides;
      bench.seconds = kMeasureSeconds;
      auto measured = bench_step(bench);
      if (!measured.ok()) {
        return std::move(measured).error().with_context("measuring this machine");
      }
      speed = measured.value().tokens_per_second.median;
    }
    machine.tokens_per_second = speed;
  }
  return ok_status();
}

std::string duration_text(double seconds) {
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  if (seconds < 7200) return fmt::format("{:.3g} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.3g} h", seconds / 3600);
  return fmt::format("{:.3g} days", seconds / 86400);
}

std::string of_limit(double need, double limit) {
  return limit > 0 ? fmt::format("{:.3g}/{:.4g}", need, limit) : fmt::format("{:.3g}", need);
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::vector<std::string> row_of(const PeerConfig& config, const MachinePlan& kind) {
  const PlanMachine& machine = kind.machine;
  const std::int64_t passes = config.batch.sequences / kind.micro_batch;
  const std::string count = machine.count > 1 ? fmt::format("{} x ", machine.count) : "";
  return {count + machine.name,
          human_count(*machine.tokens_per_second),
          percent(kind.share * machine.count),
          duration_text(kind.step_seconds),
          fmt::format("{} ({})", kind.steps_per_round, duration_text(kind.round_seconds)),
          fmt::format("{} x {}", passes, kind.micro_batch),
          of_limit(static_cast<double>(kind.memory_bytes) / 1e9, machine.memory_gb.value_or(0)),
          machine.gpu_memory_gb
              ? of_limit(static_cast<double>(kind.gpu_memory_bytes) / 1e9, *machine.gpu_memory_gb)
              : "-",
          fmt::format("{:.3g}", kind.exchanges_per_hour),
          duration_text(kind.exchange_seconds),
          of_limit(kind.upload_mbit, machine.upload_mbit),
          of_limit(kind.download_mbit, machine.download_mbit),
          of_limit(kind.gigabytes_per_day, machine.gigabytes_per_day),
          "0 %",
          percent(kind.idle_all_reduce),
          fmt::format("{} ({})", percent(kind.idle_balanced), kind.balanced_steps),
          kind.common_batch > 0 ? fmt::format("{}", kind.common_batch) : "-"};
}

nlohmann::json kind_json(const MachinePlan& kind) {
  return {{"name", kind.machine.name},
          {"count", kind.machine.count},
          {"tokens_per_second", *kind.machine.tokens_per_second},
          {"share", kind.share},
          {"tokens", kind.tokens},
          {"step_seconds", kind.step_seconds},
          {"steps_per_round", kind.steps_per_round},
          {"round_seconds", kind.round_seconds},
          {"keeps_pace", kind.keeps_pace},
          {"micro_batch", kind.micro_batch},
          {"memory_bytes", kind.memory_bytes},
          {"gpu_memory_bytes", kind.gpu_memory_bytes},
          {"exchanges_per_hour", kind.exchanges_per_hour},
          {"exchange_seconds", kind.exchange_seconds},
          {"exchanges_at_a_time", kind.exchanges_at_a_time},
          {"upload_mbit", kind.upload_mbit},
          {"download_mbit", kind.download_mbit},
          {"gigabytes_per_day", kind.gigabytes_per_day},
          {"idle", 0.0},
          {"idle_all_reduce", kind.idle_all_reduce},
          {"idle_balanced", kind.idle_balanced},
          {"balanced_steps", kind.balanced_steps},
          {"common_batch", kind.common_batch}};
}

nlohmann::json plan_json(const SwarmPlan& plan) {
  nlohmann::json machines = nlohmann::json::array();
  for (const MachinePlan& kind : plan.kinds) machines.push_back(kind_json(kind));
  return {{"parameters", plan.parameters},
          {"wire_format", optim::to_string(plan.wire_format)},
          {"fragments", plan.fragments},
          {"steps_per_round", plan.steps_per_round},
          {"round_seconds", plan.round_seconds},
          {"contraction", plan.contraction},
          {"seconds", plan.seconds},
          {"total_tokens", plan.total_tokens},
          {"machines", std::move(machines)},
          {"notes", plan.notes},
          {"misfits", plan.misfits}};
}

std::filesystem::path file_of(const std::filesystem::path& folder, const std::string& peer_name) {
  return folder / (peer_name + ".toml");
}

// What would keep them from being written is known before anything is measured.
Status check_writable(const std::filesystem::path& folder, const PlanFile& file) {
  std::set<std::string> names;
  for (const PlanMachine& machine : file.machines) {
    for (std::uint32_t number = 0; number < machine.count; ++number) {
      const std::string name = machine_name(machine, number);
      if (!names.insert(name).second) {
        return invalid(
            fmt::format("two machines would be called {}: give one of them another name", name));
      }
      const auto path = file_of(folder, name);
      auto there = path_exists(path);
      if (!there.ok()) return std::move(there).error();
      if (!there.value()) continue;
      return Error(ErrorCode::kIo,
                   path.string() + " is there already: --write wants a folder without it");
    }
  }
  return ok_status();
}

// All or none.
Status write_configs(const PlanOptions& options, const PeerConfig& config, const SwarmPlan& plan,
                     std::ostream& out) {
  const std::filesystem::path& folder = options.write;
  std::vector<PeerConfig> made;
  for (const MachinePlan& kind : plan.kinds) {
    for (std::uint32_t number = 0; number < kind.machine.count; ++number) {
      made.push_back(machine_config(config, plan, kind, number));
      // By the reader itself, which will have to take it.
      const std::string path = file_of(folder, made.back().run.peer_name).string();
      if (auto read = parse_config(dump(made.back()), path, {}); !read.ok()) {
        return std::move(read).error();
      }
    }
  }
  if (Status folder_made = create_folder(folder); !folder_made.ok()) return folder_made;
  for (const PeerConfig& one : made) {
    Status done = replace_file(file_of(folder, one.run.peer_name), dump(one));
    if (!done.ok()) return done;
  }
  if (options.json) return ok_status();
  out << fmt::format(
      "{} written to {}: set gossip.listen, gossip.advertise, gossip.seeds and [trust] "
      "in each, then ask 'starling doctor' there\n",
      counted(made.size(), "configuration"), folder.string());
  return ok_status();
}

// The lines of a dump in which another differs, below their sections.
std::string lines_that_differ(const std::string& before, const std::string& after) {
  std::string text, section;
  std::size_t left = 0, right = 0;
  const auto line_at = [](const std::string& lines, std::size_t& at) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    std::string line = lines.substr(at, end - at);
    at = std::min(end + 1, lines.size());
    return line;
  };
  while (right < after.size()) {
    const std::string old_line = line_at(before, left), line = line_at(after, right);
    if (line.starts_with('[')) section = line + '\n';
    if (line == old_line) continue;
    text += std::exchange(section, "") + line + '\n';
  }
  return text;
}

}  // namespace

std::string plan_lines(const PeerConfig& config, const SwarmPlan& plan, const MachinePlan& kind) {
  return lines_that_differ(dump(config), dump(machine_config(config, plan, kind, 0)));
}

std::string plan_text(const PeerConfig& config, const SwarmPlan& plan) {
  std::string text = fmt::format(
      "{}, {} parameters in {} fragments, {}; {} tokens in {}\n"
      "a round of {} takes {} at the fastest; it leaves {:.2g} of the variance over peers\n\n",
      counted(static_cast<std::uint64_t>(plan.machines), "machine"),
      human_count(static_cast<double>(plan.parameters)), plan.fragments,
      optim::to_string(plan.wire_format), human_count(static_cast<double>(plan.total_tokens)),
      duration_text(plan.seconds), plan.steps_per_round, duration_text(plan.round_seconds),
      plan.contraction);
  std::vector<std::vector<std::string>> rows{
      {"", "tok/s", "share", "step", "steps a round", "passes", "memory", "GPU", "exch./h", "takes",
       "up", "down", "a day", "idle", "in step", "balanced", "common"}};
  for (const MachinePlan& kind : plan.kinds) rows.push_back(row_of(config, kind));
  text += text_table(rows);
  text +=
      "\npasses: sequences at a time, so many times a step. memory, GPU: GB. up, down: Mbit/s, "
      "outside "
      "quiet\nhours; a day: GB; each over what the machine may take. idle: share of the time that "
      "it waits,\nwith pair-gossip; in step: with as many steps each and an all-reduce in fp32; "
      "balanced: with so\nmany steps each, dealt out so that such a round is as short as can be; "
      "common: sequences\n"
      "of each in a step that all take together\n";
  for (const MachinePlan& kind : plan.kinds) {
    const std::string which =
        kind.machine.count > 1
            ? fmt::format(", the first of {}; the others differ in run.peer_name",
                          kind.machine.count)
            : "";
    text += fmt::format("\n# {}{}\n{}", kind.machine.name, which, plan_lines(config, plan, kind));
  }
  if (!plan.notes.empty()) text += '\n';
  for (const std::string& note : plan.notes) text += "changed: " + note + '\n';
  if (!plan.misfits.empty()) text += '\n';
  for (const std::string& misfit : plan.misfits) text += "DOES NOT FIT: " + misfit + '\n';
  return text;
}

Status run_plan(const PlanOptions& options, std::ostream& out) {
  if (!describes_machines(options.file)) {
    if (options.write.empty())
      return tell_memory(options.file, options.overrides, options.json, out);
    return invalid("--write is for a description of machines (configs/plan.toml), which " +
                   options.file.string() + " is not");
  }
  auto file = load_plan_file(options.file);
  if (!file.ok()) return std::move(file).error();
  auto config = load_config(file.value().config, options.overrides);
  if (!config.ok()) return std::move(config).error();
  if (!options.write.empty()) {
    Status writable = check_writable(options.write, file.value());
    if (!writable.ok()) return writable;
  }
  if (Status measured = measure_speeds(options, file.value()); !measured.ok()) return measured;
  auto planned = plan_swarm(config.value(), file.value().machines);
  if (!planned.ok()) return std::move(planned).error();
  const SwarmPlan& plan = planned.value();
  out << (options.json ? plan_json(plan).dump() + '\n' : plan_text(config.value(), plan));
  if (!plan.misfits.empty()) {
    return invalid(options.json ? plan.misfits.front()
                                : std::string("this plan does not fit; what has to change stands "
                                              "above"));
  }
  if (options.write.empty()) return ok_status();
  return write_configs(options, config.value(), plan, out);
}

}  // namespace starling::peer
