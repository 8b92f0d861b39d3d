#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/cpu_device.h"
#include "base/thread_team.h"
#include "model/cpu/cpu_layer_ops.h"
#include "model/init.h"
#include "model/llama.h"
#include "optim/cpu_flat_ops.h"
#include "optim/inner_adamw.h"
#include "peer/bench/operator_times.h"
#include "peer/bench/timed_flat_ops.h"
#include "peer/bench/timed_layer_ops.h"
#include "peer/io/clock.h"

namespace starling::peer {
namespace {

constexpr model::LlamaConfig kModel{
    .vocabulary = 11, .width = 8, .layers = 3, .heads = 2, .kv_heads = 1, .ffn = 12, .context = 4};
constexpr model::BatchShape kBatch{.sequences = 2, .tokens = 4};

struct Step {
  std::vector<float> params, gradients;
  float loss = 0;
};

// With its layers through `ops`.
Step forward_backward(model::LayerOps& ops, CpuDevice& device, const model::ParamLayout& layout,
                      const std::function<void(DeviceSpan<const float>)>& begin) {
  Step step{std::vector<float>(layout.elements()), std::vector<float>(layout.elements())};
  model::initialise(layout, 1, step.params);
  auto llama = model::Llama::create(kModel, layout, kBatch, device, ops).value();
  const DeviceSpan<const float> params{step.params.data(), step.params.size()};
  begin(params);
  const std::vector<std::int32_t> inputs{1, 2, 3, 4, 5, 6, 7, 8}, targets{2, 3, 4, 5, 6, 7, 8, 9};
  llama.forward_backward(params, {step.gradients.data(), step.gradients.size()}, {inputs, targets},
                         1);
  step.loss = llama.mean_loss();
  return step;
}

std::map<std::string, std::uint64_t> calls_of(const OperatorTimes& times) {
  std::map<std::string, std::uint64_t> calls;
  for (const OperatorTime& row : times.rows()) {
    calls[std::string(row.name)] = row.calls;
  }
  return calls;
}

double seconds_of(const OperatorTimes& times) {
  double seconds = 0;
  for (const OperatorTime& row : times.rows()) seconds += row.seconds;
  return seconds;
}

TEST_CASE("operators that are measured compute the same, and every call is counted by its name") {
  CpuDevice device;
  const auto layout = model::ParamLayout::plan(kModel, 1).value();
  ThreadTeam team(1);
  const auto plain = model::make_cpu_layer_ops(team);
  const Step expected = forward_backward(*plain, device, layout, [](auto) {});
  OperatorTimes times;
  TimedLayerOps timed(model::make_cpu_layer_ops(team), device, times);
  const Instant begin = now();
  const Step measured = forward_backward(timed, device, layout,
                                         [&](auto params) { timed.name_products(params, layout); });
  const double elapsed = seconds_since(begin);
  CHECK(seconds_of(times) > 0);
  CHECK(seconds_of(times) <= elapsed);
  CHECK(measured.loss == expected.loss);
  CHECK(measured.gradients == expected.gradients);
  const std::map<std::string, std::uint64_t> counts{{"zero", 1},
                                                    {"embedding", 1},
                                                    {"embedding backward", 1},
                                                    {"norm", 2 * 3 + 1},
                                                    {"norm backward", 2 * 3 + 1},
                                                    {"qkv, rotated", 3},
                                                    {"qkv backward", 3},
                                                    {"attention", 3},
                                                    {"attention backward", 3},
                                                    {"attention output, residual, norm", 3},
                                                    {"attention output backward", 3},
                                                    {"gate and up, SwiGLU", 3},
                                                    {"gate and up backward", 3},
                                                    {"down, residual, norm", 3},
                                                    {"down and SwiGLU backward", 3},
                                                    {"head product", 1},
                                                    {"head product backward", 1},
                                                    {"cross entropy", 1}};
  CHECK(calls_of(times) == counts);
}

TEST_CASE("the products of a model without names are just products") {
  CpuDevice device;
  const auto layout = model::ParamLayout::plan(kModel, 1).value();
  OperatorTimes times;
  ThreadTeam team(1);
  TimedLayerOps timed(model::make_cpu_layer_ops(team), device, times);
  forward_backward(timed, device, layout, [](auto) {});
  CHECK(calls_of(times)["product"] == 4 * 3 + 1);
  CHECK(calls_of(times)["product backward"] == 4 * 3 + 1);
}

TEST_CASE("an optimizer that is measured does the same, and every call is counted") {
  CpuDevice device;
  const std::vector<optim::DecayRange> ranges{{0, 4, true}, {4, 6, false}};
  const std::vector<float> gradients(10, 0.5F);
  const auto step = [&](optim::FlatOps& ops) {
    auto adamw = optim::InnerAdamW::create({}, 10, ranges, device, ops).value();
    std::vector<float> params(10, 1.0F);
    adamw.step(1, 0.1F, {{params.data(), 10}, {gradients.data(), 10}});
    ops.fill(Lane::kCompute, {params.data(), 2}, 3.0F);
    ops.add_scaled(Lane::kCompute, {params.data(), 2}, 2.0F, {gradients.data(), 2}, {});
    return params;
  };
  OperatorTimes times;
  ThreadTeam team(1);
  TimedFlatOps timed(optim::make_cpu_flat_ops(team), device, times);
  CHECK(step(timed) == step(*optim::make_cpu_flat_ops(team)));
  const std::map<std::string, std::uint64_t> counts{
      {"AdamW", 1}, {"add scaled", 1}, {"squared norm", 1}, {"fill", 1}};
  CHECK(calls_of(times) == counts);
  for (const OperatorTime& row : times.rows()) {
    if (row.name == "AdamW") CHECK(row.cost.bytes == 7 * 4 * 10);
    if (row.name == "add scaled") CHECK(row.cost.bytes == 3 * 4 * 2);
  }
}

}  // namespace
}  // namespace starling::peer
