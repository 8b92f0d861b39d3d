// A whole step of a model by CUDA's operations, against the same step by the reference.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/cpu_device.h"
#include "base/rng.h"
#include "model/init.h"
#include "model/llama.h"
#include "model/reference_layer_ops.h"
#include "tests/cuda/emulated_layer_ops.h"
#include "tests/model/operator_cases.h"

namespace starling::cuda {

namespace {

using model::DType;

const model::LlamaConfig kConfig{.vocabulary = 61,
                                 .width = 64,
                                 .layers = 2,
                                 .heads = 2,
                                 .kv_heads = 1,
                                 .ffn = 72,
                                 .context = 48};
constexpr model::BatchShape kShape{.sequences = 2, .tokens = 41};

model::ParamLayout plan() {
  Result<model::ParamLayout> layout = model::ParamLayout::plan(kConfig, 2);
  REQUIRE(layout.ok());
  return std::move(layout).value();
}

struct Trained {
  explicit Trained(model::LayerOps& ops)
      : layout(plan()), params(layout.elements()), gradients(layout.elements()), llama(make(ops)) {
    model::initialise(layout, 7, params);
    Rng rng(3);
    for (std::int64_t i = 0; i < kShape.sequences * kShape.tokens; ++i) {
      inputs.push_back(static_cast<std::int32_t>(rng.below(61)));
      targets.push_back(static_cast<std::int32_t>(rng.below(61)));
    }
  }
  model::Llama make(model::LayerOps& ops) {
    Result<model::Llama> made = model::Llama::create(kConfig, layout, kShape, device, ops);
    REQUIRE(made.ok());
    return std::move(made).value();
  }
  float step() {
    llama.forward_backward({params.data(), params.size()}, {gradients.data(), gradients.size()},
                           {.inputs = inputs, .targets = targets}, 1.0F);
    return llama.mean_loss();
  }

  CpuDevice device;
  model::ParamLayout layout;
  std::vector<float> params, gradients;
  model::Llama llama;
  std::vector<std::int32_t> inputs, targets;
};

struct Difference {
  double loss, gradients;
};
// After a step, of which the second has other weights than the first.
Difference difference_of(model::LayerOps& ops, model::LayerOps& reference) {
  Trained actual(ops), expected(reference);
  Difference worst{0, 0};
  for (int step = 0; step < 2; ++step) {
    const float loss = actual.step(), expected_loss = expected.step();
    worst.loss = std::max(worst.loss, std::abs(loss / expected_loss - 1.0));
    worst.gradients =
        std::max(worst.gradients, model::relative_error(actual.gradients, expected.gradients));
    for (Trained* one : {&actual, &expected}) {
      for (float& param : one->params) param *= 1.25F;
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("a step by CUDA's operations has the loss and gradients of one by the reference") {
  EmulatedLayerOps emulated(DType::kF32);
  model::ReferenceLayerOps<float> reference;
  const Difference worst = difference_of(*emulated.ops, reference);
  CHECK(worst.loss < 1e-6);
  CHECK(worst.gradients < 1e-5);
}

// The reference rounds what is stored, not the weights: 2^-9 of each at most.
TEST_CASE(
    "a step in bf16 by CUDA's operations is within bf16's roundings of one by the reference") {
  EmulatedLayerOps emulated(DType::kBf16, cuda_on_host::Order::kBackward);
  model::ReferenceLayerOps<float> reference(DType::kBf16);
  const Difference worst = difference_of(*emulated.ops, reference);
  CHECK(worst.loss < 0x1p-10);
  CHECK(worst.gradients < 0x1p-6);
}

}  // namespace starling::cuda
