#include <doctest/doctest.h>

#include <vector>

#include "base/thread_team.h"
#include "model/cpu/cpu_layer_ops.h"
#include "optim/cpu_flat_ops.h"
#include "tests/cuda/emulated_layer_ops.h"
#include "tests/cuda/llama_step.h"

namespace starling::cuda {

using model::DType;

TEST_CASE("a step by CUDA's operations has the loss and gradients of one by the reference") {
  EmulatedLayerOps emulated(DType::kF32);
  const StepDifference worst = step_difference(emulated.device, *emulated.ops);
  CHECK(worst.loss < 1e-6);
  CHECK(worst.gradients < 1e-5);
}

// The reference rounds what is stored, not the weights: 2^-9 of each at most.
TEST_CASE(
    "a step in bf16 by CUDA's operations is within bf16's roundings of one by the reference") {
  EmulatedLayerOps emulated(DType::kBf16, cuda_on_host::Order::kBackward);
  const StepDifference worst = step_difference(emulated.device, *emulated.ops);
  CHECK(worst.loss < 0x1p-10);
  CHECK(worst.gradients < 0x1p-6);
}

TEST_CASE("a step by CUDA's operations gives the same bits again") {
  const model::LlamaConfig config{
      .vocabulary = 67, .width = 64, .layers = 1, .heads = 2, .kv_heads = 1, .ffn = 40};
  EmulatedLayerOps emulated(DType::kBf16);
  CHECK(step_repeats(emulated.device, *emulated.ops, config, {.sequences = 2, .tokens = 33}));
  CHECK(replay_repeats(emulated.device, *emulated.ops, config, {.sequences = 2, .tokens = 33}));
}

TEST_CASE("weights that AdamW rounds are those that the operations round themselves") {
  for (const DType activations : {DType::kF32, DType::kBf16}) {
    EmulatedLayerOps emulated(activations);
    ThreadTeam alone(1);
    const auto flat = optim::make_cpu_flat_ops(alone);
    CHECK(rounded_repeats(emulated.device, *emulated.ops, *flat));
  }
}

TEST_CASE("operations tell where their copy is of the weights they were told of last, in bf16") {
  std::vector<float> weights(64, 1.5F), others(64);
  const DeviceSpan<const float> told{weights.data(), weights.size()};
  for (const DType activations : {DType::kF32, DType::kBf16}) {
    EmulatedLayerOps emulated(activations);
    REQUIRE(emulated.ops->reserve({.longest = {}, .rows = 1, .width = 8, .parameters = 64}).ok());
    CHECK(emulated.ops->rounded_weights(told).size == 0);
    emulated.ops->use_weights(Lane::kCompute, told);
    const DeviceSpan<bf16> rounded = emulated.ops->rounded_weights(told);
    REQUIRE(rounded.size == (activations == DType::kBf16 ? 64 : 0));
    for (std::size_t i = 0; i < rounded.size; ++i) CHECK(to_float(rounded.data[i]) == 1.5F);
    CHECK(emulated.ops->rounded_weights({others.data(), 64}).size == 0);
    CHECK(emulated.ops->rounded_weights(told.subspan(0, 32)).size == 0);
  }
}

// The bodies' own tolerance, and for some steps the emulator's kernels; a GPU goes all the way.
TEST_CASE("a model that learns by CUDA's operations has the losses of one by the reference") {
  for (const DType activations : {DType::kF32, DType::kBf16}) {
    CAPTURE(activations);
    EmulatedLayerOps emulated(activations);
    ThreadTeam alone(1);
    const auto flat = optim::make_cpu_flat_ops(alone);
    const CurveDifference curves = curve_difference(emulated.device, *emulated.ops, *flat, 20);
    CHECK(curves.last_loss < 0.95 * curves.first_loss);
    CHECK(curves.worst < (activations == DType::kF32 ? 1e-5 : 0.005));
  }
}

TEST_CASE("two hundred steps in the CPU's types have the losses of the reference") {
  ThreadTeam alone(1);
  CpuDevice device;
  const auto flat = optim::make_cpu_flat_ops(alone);
  for (const model::Compute compute : {model::Compute::kFp32, model::Compute::kBf16}) {
    if (compute == model::Compute::kBf16 && !model::has_bf16()) continue;
    CAPTURE(compute);
    const auto ops = model::make_cpu_layer_ops(alone, compute);
    const CurveDifference curves = curve_difference(device, *ops, *flat, 200);
    CHECK(curves.last_loss < 0.5 * curves.first_loss);
    CHECK(curves.worst < 0.005);
  }
}

}  // namespace starling::cuda
