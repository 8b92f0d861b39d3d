// Tokens per second of forward_backward, and of its operations' two halves, by number of threads.
// Build with STARLING_BENCHMARKS=ON. Threads are not pinned.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/cpu_device.h"
#include "base/rng.h"
#include "model/cpu/cpu_layer_ops.h"
#include "model/init.h"
#include "model/llama.h"

namespace starling::model {

namespace {

struct Setup {
  LlamaConfig config;
  BatchShape shape;
};

const Setup kTiny{{.vocabulary = 256,
                   .width = 128,
                   .layers = 4,
                   .heads = 4,
                   .kv_heads = 4,
                   .ffn = 352,
                   .context = 128},
                  {.sequences = 16, .tokens = 128}};
const Setup kSmall{{.vocabulary = 256,
                    .width = 384,
                    .layers = 8,
                    .heads = 6,
                    .kv_heads = 6,
                    .ffn = 1024,
                    .context = 256},
                   {.sequences = 8, .tokens = 256}};

void run(benchmark::State& state, const Setup& setup, bool backward) {
  CpuDevice device;
  ThreadTeam team(static_cast<int>(state.range(0)));
  const auto ops = make_cpu_layer_ops(team);
  const ParamLayout layout = ParamLayout::plan(setup.config, 2).value();
  Llama llama = Llama::create(setup.config, layout, setup.shape, device, *ops).value();
  std::vector<float> params(layout.elements()), gradients(layout.elements());
  initialise(layout, 1, params);
  Rng rng(2);
  const auto count = static_cast<std::size_t>(setup.shape.sequences * setup.shape.tokens);
  std::vector<std::int32_t> inputs(count), targets(count);
  for (auto& token : inputs) token = static_cast<std::int32_t>(rng.below(256));
  for (auto& token : targets) token = static_cast<std::int32_t>(rng.below(256));
  const DeviceSpan<const float> weights{params.data(), params.size()};
  for (auto _ : state) {
    if (backward) {
      llama.forward_backward(weights, {gradients.data(), gradients.size()}, {inputs, targets}, 1,
                             Weights::kNew, Gradients::kSet);
    } else {
      llama.forward(weights, {inputs, targets});
    }
    benchmark::DoNotOptimize(llama.mean_loss());
  }
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(count), benchmark::Counter::kIsIterationInvariantRate);
}

void forward_backward_tiny(benchmark::State& state) { run(state, kTiny, true); }
void forward_tiny(benchmark::State& state) { run(state, kTiny, false); }
void forward_backward_small(benchmark::State& state) { run(state, kSmall, true); }

BENCHMARK(forward_backward_tiny)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(forward_tiny)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(forward_backward_small)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace

}  // namespace starling::model
