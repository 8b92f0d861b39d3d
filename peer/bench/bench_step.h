// starling bench step: how fast this machine trains. A peer's own Trainer, on the backend that the
// configuration names, takes steps on random tokens, alone; first undisturbed, for tokens per
// second, then with every operator measured.
//
// No files but the configuration, no network. Blocking; for the command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "peer/bench/bench_machine.h"
#include "peer/bench/operator_times.h"
#include "peer/config/config.h"

namespace starling::peer {

struct StepBenchOptions {
  std::filesystem::path config{};        // empty: `shape`
  std::string shape = "tiny";            // one of kBenchShapes
  std::vector<std::string> overrides{};  // "section.key=value"
  std::uint32_t threads = 0;             // 0: those of the configuration
  double seconds = 10;                   // of each of the two passes
  std::size_t copy_bytes = 0;            // as MachineProbe has it
};

// For processors the first three; for GPUs the last three, with more and longer sequences.
inline constexpr std::string_view kBenchShapes[] = {"tiny", "small", "124M", "350M", "1.3B"};

// One of them as a configuration file; what is no name of a shape gives the first.
std::string bench_shape_text(std::string_view shape);

// Of the steps of a pass.
struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread_of(std::vector<double> values);

struct StepBench {
  std::string shape;  // its name, or the file's
  std::string device;
  std::string compute;  // the type of products
  bool on_cpu = false;
  int threads = 0;  // of the CPU's operators
  model::LlamaConfig model;
  model::BatchShape batch;
  std::int64_t micro_batch = 0;  // sequences computed at a time
  std::uint64_t parameters = 0;
  double operations_per_token = 0;

  std::uint64_t warm_up = 0, steps = 0;
  Spread tokens_per_second, step_seconds;
  int processors = 0;                      // that this process may use
  std::optional<double> used_by_others{};  // of them meanwhile, on average; empty: not known
  std::uint64_t memory_bytes = 0;  // the most that was resident up to the end of the first pass
  std::uint64_t gpu_bytes = 0;     // of the GPU's, taken by the trainer of the first pass

  std::uint64_t timed_steps = 0;
  double timed_step_seconds = 0;        // mean
  std::vector<OperatorTime> operators;  // of all timed steps
  std::optional<MachineSpeed> machine;  // empty: no memory to measure it

  double operations_per_second() const { return operations_per_token * tokens_per_second.median; }
};

Result<StepBench> bench_step(const StepBenchOptions& options);

}  // namespace starling::peer
