#include <doctest/doctest.h>

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

}  // namespace starling::cuda
