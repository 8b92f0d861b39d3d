#include "peer/bench/bench_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "peer/io/human_text.h"
#include "peer/roles/memory_plan.h"

namespace starling::peer {

namespace {

using nlohmann::json;

constexpr double kGiga = 1e9, kMega = 1e6, kMilli = 1e-3;
constexpr double kBusyShare = 0.03;  // of the processors: less is what a quiet system takes
constexpr const char* kProgram = "starling " STARLING_VERSION;

json spread_json(const Spread& spread, double unit) {
  return {
      {"median", spread.median / unit}, {"min", spread.least / unit}, {"max", spread.most / unit}};
}

double copy_share(const Rate& rate, const RateBench& bench) {
  const double copies = bench.machine.bandwidth();
  return copies > 0 ? rate.bytes_per_second() / copies : 0.0;
}

// Of the timed steps: what they spent outside of all operators.
double rest_seconds(const StepBench& bench) {
  double inside = 0;
  for (const OperatorTime& row : bench.operators) inside += row.seconds;
  return std::max(0.0, bench.timed_step_seconds - inside / static_cast<double>(bench.timed_steps));
}

std::vector<OperatorTime> slowest_first(std::vector<OperatorTime> rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const OperatorTime& left, const OperatorTime& right) {
                     return left.seconds > right.seconds;
                   });
  return rows;
}

json operator_json(const OperatorTime& row, const StepBench& bench) {
  const auto steps = static_cast<double>(bench.timed_steps);
  json shown{{"name", row.name},
             {"calls_per_step", static_cast<double>(row.calls) / steps},
             {"ms_per_step", row.seconds / steps / kMilli},
             {"operations_per_step", row.cost.operations / steps},
             {"bytes_per_step", row.cost.bytes / steps}};
  if (bench.machine) {
    const double floor = floor_seconds(row.cost, *bench.machine, bench.compute);
    shown["floor_ms_per_step"] = floor / steps / kMilli;
    shown["floor_share"] = row.seconds > 0 ? floor / row.seconds : 0.0;
  }
  return shown;
}

std::string operator_line(const OperatorTime& row, const StepBench& bench) {
  const auto steps = static_cast<double>(bench.timed_steps);
  const double share = row.seconds / steps / bench.timed_step_seconds;
  std::string line = fmt::format("{:<26}{:>8.0f}{:>12.3f}{:>8.1f} %", row.name,
                                 static_cast<double>(row.calls) / steps,
                                 row.seconds / steps / kMilli, 100 * share);
  if (!bench.machine) return line + "\n";
  const double floor = floor_seconds(row.cost, *bench.machine, bench.compute);
  return line + fmt::format("{:>12.3f}{:>8.0f} %\n", floor / steps / kMilli,
                            row.seconds > 0 ? 100 * floor / row.seconds : 0.0);
}

std::string operators_text(const StepBench& bench) {
  std::string text =
      fmt::format("{:<26}{:>8}{:>12}{:>10}", "operator", "calls", "ms a step", "share");
  text += bench.machine ? fmt::format("{:>12}{:>10}\n", "floor ms", "of floor") : "\n";
  for (const OperatorTime& row : slowest_first(bench.operators)) text += operator_line(row, bench);
  const double rest = rest_seconds(bench);
  text += fmt::format("{:<34}{:>12.3f}{:>8.1f} %\n", "everything else", rest / kMilli,
                      100 * rest / bench.timed_step_seconds);
  return text;
}

// Where it matters: a step on a GPU leaves the processors idle.
std::string busy_text(const StepBench& bench) {
  const double used = bench.used_by_others.value_or(0);
  // Those that the bench leaves idle are anybody's.
  const double spare = std::max(0, bench.processors - bench.threads);
  if (!bench.on_cpu || used < spare + kBusyShare * bench.processors) return "";
  return fmt::format(
      "busy        others used {:.2f} of the {} meanwhile: by itself this is faster\n", used,
      counted(static_cast<std::uint64_t>(bench.processors), "processor"));
}

}  // namespace

json machine_json(const MachineSpeed& machine) {
  return {{"threads", machine.threads},  // 0: a GPU's
          {"fp32_gflops", machine.fp32 / kGiga},
          {"fp32_loop", machine.fp32_loop},
          {"bf16_gflops", machine.bf16 / kGiga},
          {"bf16_loop", machine.bf16_loop},
          {"copy_gb_per_second", machine.copy / kGiga},
          {"copy_past_caches_gb_per_second", machine.copy_past / kGiga},
          {"copy_array_bytes", machine.copy_bytes}};
}

std::string machine_text(const MachineSpeed& machine) {
  std::string limits;
  const auto add_peak = [&limits](double peak, const char* type, const std::string& loop) {
    if (peak <= 0) return;
    const char* between = limits.empty() ? "" : ", ";
    limits += fmt::format("{}{:.1f} GFLOP/s in {} ({})", between, peak / kGiga, type, loop);
  };
  add_peak(machine.fp32, "fp32", machine.fp32_loop);
  add_peak(machine.bf16, "bf16", machine.bf16_loop);
  std::string copies = fmt::format("copies {:.1f} GB/s", machine.copy / kGiga);
  if (machine.copy_past > 0) {
    copies += fmt::format(", past the caches {:.1f}", machine.copy_past / kGiga);
  }
  copies += fmt::format(" (read and written; two arrays of {})", human_bytes(machine.copy_bytes));
  if (machine.threads > 0) {
    copies += fmt::format(", on {} thread{}", machine.threads, machine.threads == 1 ? "" : "s");
  }
  return fmt::format("machine     {}\n            {}\n", limits, copies);
}

json step_json(const StepBench& bench) {
  const model::LlamaConfig& model = bench.model;
  json shown{{"program", kProgram},
             {"bench", "step"},
             {"device", bench.device},
             {"threads", bench.threads},
             {"compute", bench.compute},
             {"shape", bench.shape},
             {"model",
              {{"vocabulary", model.vocabulary},
               {"width", model.width},
               {"layers", model.layers},
               {"heads", model.heads},
               {"kv_heads", model.kv_heads},
               {"ffn", model.ffn},
               {"tied_head", model.tied_head}}},
             {"batch",
              {{"sequences", bench.batch.sequences},
               {"tokens", bench.batch.tokens},
               {"micro", bench.micro_batch}}},
             {"parameters", bench.parameters},
             {"warm_up_steps", bench.warm_up},
             {"steps", bench.steps},
             {"tokens_per_second", spread_json(bench.tokens_per_second, 1)},
             {"step_ms", spread_json(bench.step_seconds, kMilli)},
             {"operations_per_token", bench.operations_per_token},
             {"gflops", bench.operations_per_second() / kGiga},
             {"peak_memory_bytes", bench.memory_bytes},
             {"gpu_memory_bytes", bench.gpu_bytes},
             {"processors", bench.processors},
             {"timed_steps", bench.timed_steps},
             {"timed_step_ms", bench.timed_step_seconds / kMilli},
             {"rest_ms_per_step", rest_seconds(bench) / kMilli}};
  if (bench.used_by_others) shown["processors_used_by_others"] = *bench.used_by_others;
  shown["operators"] = json::array();
  for (const OperatorTime& row : slowest_first(bench.operators)) {
    shown["operators"].push_back(operator_json(row, bench));
  }
  if (bench.machine) {
    shown["machine"] = machine_json(*bench.machine);
    shown["peak_share"] = bench.operations_per_second() / bench.machine->peak(bench.compute);
  }
  return shown;
}

json exchange_json(const ExchangeBench& bench) {
  const auto of = [&](const std::vector<ExchangeRun>& runs, double ExchangeRun::*field,
                      double unit) { return spread_json(bench.of(runs, field), unit); };
  std::uint64_t exchanges = 0;
  for (const ExchangeRun& run : bench.exchanging) exchanges += run.exchanges;
  return {{"program", kProgram},
          {"bench", "exchange"},
          {"shape", bench.shape},
          {"threads", bench.threads},
          {"parameters", bench.parameters},
          {"steps", bench.steps},
          {"rounds", bench.exchanging.size()},
          {"exchanges", exchanges},
          {"mb_per_second", of(bench.exchanging, &ExchangeRun::bytes_per_second, kMega)},
          {"cpu_seconds_per_gb", spread_json(bench.cpu_seconds_per_gigabyte(), 1)},
          {"tokens_per_second_alone", of(bench.alone, &ExchangeRun::tokens_per_second, 1)},
          {"tokens_per_second", of(bench.exchanging, &ExchangeRun::tokens_per_second, 1)},
          {"speed_ratio", spread_json(bench.speed_ratio(), 1)},
          {"held_share", of(bench.exchanging, &ExchangeRun::held_share, 1)}};
}

std::string exchange_text(const ExchangeBench& bench) {
  std::string text = fmt::format(
      "{}, two peers with {} thread{} each, {}: {} parameters, {} round{} of {} steps\n\n",
      kProgram, bench.threads, bench.threads == 1 ? "" : "s", bench.shape,
      human_count(static_cast<double>(bench.parameters)), bench.exchanging.size(),
      bench.exchanging.size() == 1 ? "" : "s", bench.steps);
  const auto line = [&](const char* name, const Spread& spread, double unit, int digits) {
    text += fmt::format("{:<34}{:>12.{}f} ({:.{}f} to {:.{}f})\n", name, spread.median / unit,
                        digits, spread.least / unit, digits, spread.most / unit, digits);
  };
  line("MB/s exchanged, both ways", bench.of(bench.exchanging, &ExchangeRun::bytes_per_second),
       kMega, 2);
  line("processor seconds per GB", bench.cpu_seconds_per_gigabyte(), 1, 2);
  line("tokens/s of a peer alone", bench.of(bench.alone, &ExchangeRun::tokens_per_second), 1, 0);
  line("tokens/s while exchanging", bench.of(bench.exchanging, &ExchangeRun::tokens_per_second), 1,
       0);
  line("ratio of the two", bench.speed_ratio(), 1, 4);
  line("% of its time the trainer was held", bench.of(bench.exchanging, &ExchangeRun::held_share),
       0.01, 3);
  return text;
}

json limits_json(const MachineSpeed& machine) {
  json shown = machine_json(machine);
  shown["program"] = kProgram;
  shown["bench"] = "machine";
  return shown;
}

std::string limits_text(const MachineSpeed& machine) {
  return fmt::format("{}\n{}", kProgram, machine_text(machine));
}

json rates_json(const RateBench& bench) {
  json rates = json::array();
  for (const Rate& rate : bench.rates) {
    rates.push_back({{"name", rate.name},
                     {"gvalues_per_second", rate.values_per_second() / kGiga},
                     {"gb_per_second", rate.bytes_per_second() / kGiga},
                     {"copy_share", copy_share(rate, bench)},
                     {"pass_ms", spread_json(rate.seconds, kMilli)}});
  }
  return {{"program", kProgram},       {"bench", bench.bench},
          {"device", bench.device},    {"parameters", bench.parameters},
          {"rates", std::move(rates)}, {"machine", machine_json(bench.machine)}};
}

std::string rates_text(const RateBench& bench) {
  std::string text = fmt::format(
      "{}, {}, {} parameters\n{}\n{:<24}{:>12}{:>10}{:>12}{:>28}\n", kProgram, bench.device,
      human_count(static_cast<double>(bench.parameters)), machine_text(bench.machine), "path",
      "Gvalue/s", "GB/s", "of copies", "ms a pass");
  for (const Rate& rate : bench.rates) {
    const Spread& pass = rate.seconds;
    text += fmt::format("{:<24}{:>12.3f}{:>10.1f}{:>10.0f} %{:>28}\n", rate.name,
                        rate.values_per_second() / kGiga, rate.bytes_per_second() / kGiga,
                        100 * copy_share(rate, bench),
                        fmt::format("{:.2f} ({:.2f} to {:.2f})", pass.median / kMilli,
                                    pass.least / kMilli, pass.most / kMilli));
  }
  return text;
}

std::string step_text(const StepBench& bench) {
  const Spread& speed = bench.tokens_per_second;
  const Spread& step = bench.step_seconds;
  const std::string at_a_time = bench.micro_batch == bench.batch.sequences
                                    ? ""
                                    : fmt::format(", {} sequences at a time", bench.micro_batch);
  // Some devices say it themselves.
  const std::string in = ", " + bench.compute;
  const std::string computing = bench.device.ends_with(in) ? "" : in;
  std::string text = fmt::format(
      "{}, {}{}\n"
      "{}: {} parameters, width {}, {} layers, {} heads, vocabulary {}; {} x {} tokens a step"
      "{}\n\n"
      "tokens/s    {:.0f} ({:.0f} to {:.0f}), over {} steps after {} to warm up\n"
      "ms a step   {:.3f} ({:.3f} to {:.3f})\n",
      kProgram, bench.device, computing, printable(bench.shape),
      human_count(static_cast<double>(bench.parameters)), bench.model.width, bench.model.layers,
      bench.model.heads, bench.model.vocabulary, bench.batch.sequences, bench.batch.tokens,
      at_a_time, speed.median, speed.least, speed.most, bench.steps, bench.warm_up,
      step.median / kMilli, step.least / kMilli, step.most / kMilli);
  text += busy_text(bench);
  text += fmt::format("GFLOP/s     {:.1f}", bench.operations_per_second() / kGiga);
  if (bench.machine) {
    const double peak = bench.machine->peak(bench.compute);
    text += fmt::format(", {:.1f} % of the {:.1f} that are possible here",
                        100 * bench.operations_per_second() / peak, peak / kGiga);
  }
  text += fmt::format("\nmemory      {} at most", human_bytes(bench.memory_bytes));
  if (!bench.on_cpu) text += fmt::format(", {} of the GPU's", human_bytes(bench.gpu_bytes));
  text += "\n";
  if (bench.machine) text += machine_text(*bench.machine);
  return text + "\n" + operators_text(bench);
}

}  // namespace starling::peer
