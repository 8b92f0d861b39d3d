#include "peer/bench/bench_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

#include "base/rng.h"
#include "peer/bench/timed_flat_ops.h"
#include "peer/bench/timed_layer_ops.h"
#include "peer/machine/backend.h"
#include "peer/machine/busy_processors.h"
#include "peer/machine/free_memory.h"
#include "peer/machine/processors.h"
#include "peer/roles/memory_plan.h"
#include "peer/roles/role_settings.h"
#include "peer/roles/trainer.h"

namespace starling::peer {

namespace {

constexpr std::uint64_t kWarmUpMin = 2, kStepsMin = 3;
constexpr double kWarmUpShare = 0.1, kProbeShare = 0.05;
// Below the least, a probe measures nothing but its own start.
constexpr double kProbeSecondsMin = 0.02, kProbeSecondsMax = 0.5;

Result<PeerConfig> config_of(const StepBenchOptions& options) {
  const bool known = std::find(std::begin(kBenchShapes), std::end(kBenchShapes), options.shape) !=
                     std::end(kBenchShapes);
  if (options.config.empty() && !known) {
    return Error(ErrorCode::kInvalidConfig, fmt::format("--shape {}: there are {}", options.shape,
                                                        fmt::join(kBenchShapes, ", ")));
  }
  auto config = options.config.empty()
                    ? parse_config(bench_shape_text(options.shape), "--shape", options.overrides)
                    : load_config(options.config, options.overrides);
  if (config.ok() && options.threads > 0) config.value().device.threads = options.threads;
  return config;
}

class RandomTokens final : public TokenSource {
 public:
  explicit RandomTokens(std::int64_t vocabulary)
      : vocabulary_(static_cast<std::uint64_t>(vocabulary)) {}

  void training_batch(std::uint64_t index, std::span<std::int32_t> inputs,
                      std::span<std::int32_t> targets) override {
    Rng rng(index);
    for (std::int32_t& token : inputs) token = static_cast<std::int32_t>(rng.below(vocabulary_));
    std::copy(inputs.begin() + 1, inputs.end(), targets.begin());
    targets.back() = static_cast<std::int32_t>(rng.below(vocabulary_));
  }
  std::int64_t validation_batches() const override { return 0; }
  void validation_batch(std::int64_t, std::span<std::int32_t>, std::span<std::int32_t>) override {}

 private:
  const std::uint64_t vocabulary_;
};

// A trainer that is alone, and all it needs.
class LoneTrainer {
 public:
  // Sets `config.micro_batch` to what the device has room for, as a peer's start does. The calling
  // thread, which is to take the steps, gets the processor of one.
  static Result<std::unique_ptr<LoneTrainer>> create(PeerConfig& config,
                                                     const model::ParamLayout& layout,
                                                     Backend backend) {
    std::unique_ptr<LoneTrainer> lone(new LoneTrainer(config, layout, std::move(backend)));
    PeerConfig alone = config;  // whose plan has nothing of an exchange
    alone.outer.rule.method = optim::OuterMethod::kLocal;
    const DeviceNeeds needs = needs_of(lone->backend_);
    // Beside a GPU's memory it takes nothing worth judging.
    const auto memory = needs.far ? std::nullopt : memory_available();
    auto tries = micro_batches_to_try(memory, alone, layout, lone->stripes_, needs);
    if (!tries.ok()) return std::move(tries).error();
    auto trainer = start_with_first(tries.value(), [&](std::int64_t micro) {
      config.micro_batch = micro;
      TrainerConfig settings = trainer_config(config, false, needs);
      settings.tokens_budget = std::numeric_limits<std::uint64_t>::max();
      settings.checkpoint_every_steps = settings.validate_every_steps = 0;
      return Trainer::create(settings, layout, lone->stripes_, lone->backend_, lone->source_,
                             lone->slots_, lone->rings_, lone->metrics_);
    });
    if (!trainer.ok()) return std::move(trainer).error();
    lone->trainer_ = std::move(trainer).value();
    if (lone->backend_.team) lone->backend_.team->pin_caller();
    return lone;
  }

  double step() {
    const Instant start = now();
    trainer_->pump();
    const double seconds = seconds_since(start);
    while (rings_.trainer_to_network.try_pop()) continue;
    return seconds;
  }
  DeviceSpan<const float> weights() const { return trainer_->weights(); }
  const Backend& backend() const { return backend_; }

 private:
  LoneTrainer(const PeerConfig& config, const model::ParamLayout& layout, Backend backend)
      : stripes_(layout),
        backend_(std::move(backend)),
        source_(config.model.vocabulary),
        slots_(Buffer(), 0),
        rings_(1) {}

  const StripeTable stripes_;
  Backend backend_;
  RandomTokens source_;
  SlotPool slots_;
  Rings rings_;
  TrainerMetrics metrics_;
  std::unique_ptr<Trainer> trainer_;
};

// Steps of a warm-up, then the seconds of each until time is up.
std::vector<double> take_steps(LoneTrainer& trainer, double seconds, std::uint64_t& warm_up) {
  const Instant begin = now();
  for (warm_up = 0; warm_up < kWarmUpMin || seconds_since(begin) < kWarmUpShare * seconds;
       ++warm_up) {
    trainer.step();
  }
  std::vector<double> steps;
  while (steps.size() < kStepsMin || seconds_since(begin) < seconds) {
    steps.push_back(trainer.step());
  }
  return steps;
}

Result<Backend> backend_of(const PeerConfig& config) {
  return make_backend(config.device.name,
                      {.threads = config.device.threads, .pin = config.device.pin},
                      config.device.compute);
}

Status measure_speed(const StepBenchOptions& options, PeerConfig& config,
                     const model::ParamLayout& layout, StepBench& bench) {
  const std::vector<int> processors = processor_facts().allowed;  // before it is given one of them
  auto backend = backend_of(config);
  if (!backend.ok()) return std::move(backend).error();
  bench.device = backend.value().title;
  bench.compute = backend.value().compute == model::Compute::kBf16 ? "bf16" : "fp32";
  bench.on_cpu = !backend.value().is_far();
  const auto before = gpu_memory_free(backend.value());
  auto trainer = LoneTrainer::create(config, layout, std::move(backend).value());
  if (!trainer.ok()) return std::move(trainer).error();
  const BusyProcessors busy(processors);
  const std::vector<double> steps = take_steps(*trainer.value(), options.seconds, bench.warm_up);
  bench.processors = static_cast<int>(processors.size());
  bench.used_by_others = busy.used_by_others();
  bench.micro_batch = micro_batch_of(config);
  bench.steps = steps.size();
  bench.step_seconds = spread_of(steps);
  const auto tokens = static_cast<double>(config.batch.sequences * config.batch.tokens);
  bench.tokens_per_second = {.median = tokens / bench.step_seconds.median,
                             .least = tokens / bench.step_seconds.most,
                             .most = tokens / bench.step_seconds.least};
  bench.memory_bytes = peak_memory();
  const auto after = gpu_memory_free(trainer.value()->backend());
  if (before && after) bench.gpu_bytes = *before - std::min(*before, *after);
  return ok_status();
}

// With the same steps; the measuring itself makes them a little slower.
Status measure_operators(const StepBenchOptions& options, PeerConfig& config,
                         const model::ParamLayout& layout, StepBench& bench) {
  auto made = backend_of(config);
  if (!made.ok()) return std::move(made).error();
  Backend backend = std::move(made).value();
  OperatorTimes times;
  auto layers = std::make_unique<TimedLayerOps>(std::move(backend.layers), *backend.device, times);
  TimedLayerOps& products = *layers;
  backend.layers = std::move(layers);
  backend.flat = std::make_unique<TimedFlatOps>(std::move(backend.flat), *backend.device, times);
  auto trainer = LoneTrainer::create(config, layout, std::move(backend));
  if (!trainer.ok()) return std::move(trainer).error();
  products.name_products(trainer.value()->weights(), layout);
  for (std::uint64_t step = 0; step < kWarmUpMin; ++step) trainer.value()->step();
  times.clear();
  double seconds = 0;
  while (bench.timed_steps < kStepsMin || seconds < options.seconds) {
    seconds += trainer.value()->step();
    ++bench.timed_steps;
  }
  bench.timed_step_seconds = seconds / static_cast<double>(bench.timed_steps);
  bench.operators.assign(times.rows().begin(), times.rows().end());
  return ok_status();
}

std::optional<MachineSpeed> limits_of(const StepBenchOptions& options, const PeerConfig& config,
                                      const StepBench& bench) {
  const MachineProbe probe{
      .threads = bench.threads,
      .seconds = std::clamp(kProbeShare * options.seconds, kProbeSecondsMin, kProbeSecondsMax),
      .copy_bytes = options.copy_bytes};
  if (bench.on_cpu) return measure_machine(probe);
  auto backend = backend_of(config);
  if (!backend.ok()) return std::nullopt;
  auto speed = measure_gpu(backend.value(), probe);
  if (!speed.ok()) return std::nullopt;
  return std::move(speed).value();
}

}  // namespace

// One fragment: how a model is cut is no part of a step.
std::string bench_shape_text(std::string_view shape) {
  const auto text = [](int vocabulary, int width, int layers, int heads, int ffn, int sequences,
                       int tokens) {
    return fmt::format(
        "[model]\nvocabulary = {}\nwidth = {}\nlayers = {}\nheads = {}\nkv_heads = {}\nffn = {}\n"
        "context = {}\n[batch]\nsequences = {}\ntokens = {}\n[outer]\nfragments = 1\n",
        vocabulary, width, layers, heads, heads, ffn, tokens, sequences, tokens);
  };
  if (shape == "small") return text(256, 384, 8, 6, 1024, 8, 256);
  if (shape == "124M") return text(32000, 768, 12, 12, 2048, 2, 512);
  if (shape == "350M") return text(32000, 1024, 24, 16, 2816, 8, 1024);
  if (shape == "1.3B") return text(32000, 2048, 24, 16, 5504, 8, 1024);
  return text(256, 128, 4, 4, 352, 16, 128);
}

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {.median = median, .least = values.front(), .most = values.back()};
}

Result<StepBench> bench_step(const StepBenchOptions& options) {
  auto loaded = config_of(options);
  if (!loaded.ok()) return std::move(loaded).error();
  PeerConfig& config = loaded.value();
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
  if (!layout.ok()) return std::move(layout).error();

  StepBench bench;
  bench.shape = options.config.empty() ? options.shape : options.config.string();
  bench.model = config.model;
  bench.batch = config.batch;
  bench.parameters = layout.value().elements();
  bench.operations_per_token = training_operations_per_token(config.model, config.batch.tokens);
  bench.threads = config.device.threads > 0 ? static_cast<int>(config.device.threads)
                                            : default_threads(processor_facts());
  for (const auto pass : {measure_speed, measure_operators}) {
    Status done = ok_status();
    // On a thread that has a processor of its own, as a trainer's, and that nobody inherits it
    // from.
    std::jthread([&] { done = pass(options, config, layout.value(), bench); }).join();
    if (!done.ok()) return std::move(done).error();
  }
  bench.machine = limits_of(options, config, bench);
  return bench;
}

}  // namespace starling::peer
