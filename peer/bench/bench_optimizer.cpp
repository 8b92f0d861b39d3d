#include "peer/bench/bench_optimizer.h"

#include <thread>
#include <utility>

#include "peer/machine/backend.h"

namespace starling::peer {

namespace {

constexpr std::size_t kArrays = 4;  // parameters, two moments, gradients
constexpr double kBytes = sizeof(float);

Rate rate(const char* name, double values, double arrays, const Spread& seconds) {
  return {.name = name, .values = values, .bytes = arrays * kBytes * values, .seconds = seconds};
}

// The calling thread computes, and is given the processor of one that does.
Status measure_paths(const RateBenchOptions& options, Backend& backend, RateBench& bench) {
  backend.team->pin_caller();
  Device& device = *backend.device;
  optim::FlatOps& ops = *backend.flat;
  const std::size_t count = options.parameters;
  auto memory = device.allocate(MemoryKind::kDevice, (kArrays * count + 1) * sizeof(float));
  if (!memory.ok()) return std::move(memory).error().with_context("--parameters");
  const DeviceSpan<float> all = memory.value().as<float>();
  const auto array = [&](std::size_t index) { return all.subspan(index * count, count); };
  const DeviceSpan<float> norm = all.subspan(kArrays * count, 1);
  for (std::size_t index = 0; index < kArrays; ++index) {  // pages of their own
    ops.fill(Lane::kCompute, array(index), 0.01F);
  }

  const auto values = static_cast<double>(count);
  bench.rates.push_back(rate("squared norm", values, 1, time_passes(options.seconds, [&] {
                               ops.squared_norm(Lane::kCompute, norm, array(3));
                             })));
  const optim::AdamWScalars scalars{.beta1 = 0.9F,
                                    .beta2 = 0.95F,
                                    .epsilon = 1e-8F,
                                    .decay_factor = 1.0F,
                                    .step_size = 1e-6F,
                                    .moment2_root_scale = 1.0F,
                                    .clip_norm = 1.0F};
  bench.rates.push_back(
      rate("AdamW", values, 7, time_passes(options.seconds, [&] {
             ops.adamw(Lane::kCompute, scalars, {array(0), array(1), array(2), array(3), norm});
           })));
  return ok_status();
}

}  // namespace

Result<RateBench> bench_optimizer(const RateBenchOptions& options) {
  if (Status valid = validate(options); !valid.ok()) return std::move(valid).error();
  auto made = make_backend("cpu", {.threads = options.threads, .pin = true});
  if (!made.ok()) return std::move(made).error().with_context("--threads");
  Backend backend = std::move(made).value();
  RateBench bench{.bench = "optimizer",
                  .device = backend.title,
                  .parameters = options.parameters,
                  .rates = {},
                  .machine = {}};
  Status done = ok_status();
  std::jthread([&] { done = measure_paths(options, backend, bench); }).join();
  if (!done.ok()) return std::move(done).error();
  bench.machine = measure_machine({.threads = backend.team->size(),
                                   .seconds = options.seconds,
                                   .copy_bytes = options.copy_bytes});
  return bench;
}

}  // namespace starling::peer
