#include "tests/cuda/llama_step.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/cpu_device.h"
#include "base/rng.h"
#include "model/init.h"
#include "model/llama.h"
#include "model/reference_layer_ops.h"
#include "tests/model/operator_cases.h"
#include "tests/support/device_floats.h"

namespace starling::cuda {

namespace {

const model::LlamaConfig kConfig{.vocabulary = 61,
                                 .width = 64,
                                 .layers = 2,
                                 .heads = 2,
                                 .kv_heads = 1,
                                 .ffn = 72,
                                 .context = 48};
constexpr model::BatchShape kShape{.sequences = 2, .tokens = 41};

template <class T>
T value_of(Result<T> result) {
  REQUIRE(result.ok());
  return std::move(result).value();
}

class Trained {
 public:
  Trained(Device& device, model::LayerOps& ops)
      : device_(device),
        layout_(value_of(model::ParamLayout::plan(kConfig, 2))),
        host_params_(layout_.elements()),
        params_(floats()),
        gradients_(floats()),
        llama_(value_of(model::Llama::create(kConfig, layout_, kShape, device, ops))) {
    model::initialise(layout_, 7, host_params_);
    Rng rng(3);
    for (std::int64_t i = 0; i < kShape.sequences * kShape.tokens; ++i) {
      inputs_.push_back(static_cast<std::int32_t>(rng.below(61)));
      targets_.push_back(static_cast<std::int32_t>(rng.below(61)));
    }
  }

  // With all weights scaled once more.
  float step(float scale) {
    for (float& param : host_params_) param *= scale;
    testing::put_floats(device_, params_.as<float>(), host_params_);
    llama_.forward_backward(params_.as<float>(), gradients_.as<float>(),
                            {.inputs = inputs_, .targets = targets_}, 1.0F);
    return llama_.mean_loss();
  }
  std::vector<float> gradients() { return testing::floats_of(device_, gradients_.as<float>()); }

 private:
  Buffer floats() {
    return value_of(device_.allocate(MemoryKind::kDevice, layout_.elements() * sizeof(float)));
  }

  Device& device_;
  model::ParamLayout layout_;
  std::vector<float> host_params_;
  Buffer params_, gradients_;
  model::Llama llama_;
  std::vector<std::int32_t> inputs_, targets_;
};

}  // namespace

StepDifference step_difference(Device& device, model::LayerOps& ops) {
  CpuDevice host;
  model::ReferenceLayerOps<float> reference(ops.activations());
  Trained actual(device, ops), expected(host, reference);
  StepDifference worst{0, 0};
  for (const float scale : {1.0F, 1.25F}) {
    const float loss = actual.step(scale), expected_loss = expected.step(scale);
    worst.loss = std::max(worst.loss, std::abs(loss / expected_loss - 1.0));
    worst.gradients =
        std::max(worst.gradients, model::relative_error(actual.gradients(), expected.gradients()));
  }
  return worst;
}

}  // namespace starling::cuda
