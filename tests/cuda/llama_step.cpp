#include "tests/cuda/llama_step.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/cpu_device.h"
#include "base/rng.h"
#include "base/thread_team.h"
#include "model/init.h"
#include "model/llama.h"
#include "model/reference_layer_ops.h"
#include "optim/cpu_flat_ops.h"
#include "optim/inner_adamw.h"
#include "tests/model/operator_cases.h"
#include "tests/support/device_floats.h"
#include "tests/support/worst.h"

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
// Of learn(): few words and small steps. Where a model begins to see what it did not see, and where
// steps are too large, roundings grow to any size.
constexpr std::int32_t kSpoken = 8;
constexpr float kLearningRate = 5e-4F;
constexpr std::size_t kWindow = 10;  // steps; single ones differ by what rounding makes of chance

// Who makes the rounded copy of the weights, where operations keep one.
enum class Rounds : std::uint8_t { kModel, kOptimizer };

template <class T>
T value_of(Result<T> result) {
  REQUIRE(result.ok());
  return std::move(result).value();
}

class Trained {
 public:
  Trained(Device& device, model::LayerOps& ops, const model::LlamaConfig& config = kConfig,
          const model::BatchShape& shape = kShape)
      : device_(device),
        ops_(ops),
        layout_(value_of(model::ParamLayout::plan(config, 2))),
        host_params_(layout_.elements()),
        params_(floats()),
        gradients_(floats()),
        llama_(value_of(model::Llama::create(config, layout_, shape, device, ops))) {
    model::initialise(layout_, 7, host_params_);
    Rng rng(3);
    const auto words = static_cast<std::uint64_t>(config.vocabulary);
    for (std::int64_t i = 0; i < shape.sequences * shape.tokens; ++i) {
      inputs_.push_back(static_cast<std::int32_t>(rng.below(words)));
      targets_.push_back(static_cast<std::int32_t>(rng.below(words)));
    }
  }

  // With all weights scaled once more; in two halves, of which the second knows the weights.
  float step(float scale) {
    for (float& param : host_params_) param *= scale;
    testing::put_floats(device_, params_.as<float>(), host_params_);
    for (const model::Weights weights : {model::Weights::kNew, model::Weights::kSame}) {
      llama_.forward_backward(params_.as<float>(), gradients_.as<float>(),
                              {.inputs = inputs_, .targets = targets_}, 0.5F, weights);
    }
    return llama_.mean_loss();
  }
  void rehearse() {
    testing::put_floats(device_, params_.as<float>(), host_params_);
    llama_.rehearse(params_.as<float>(), gradients_.as<float>(), 0.5F);
  }
  // The loss and the gradients of one batch, from `turn` on.
  std::vector<float> step_of(std::size_t turn, model::Gradients before) {
    std::vector<std::int32_t> inputs = inputs_;
    std::rotate(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(turn), inputs.end());
    const float was = before == model::Gradients::kSet ? 7.0F : 0.0F;
    testing::put_floats(device_, gradients_.as<float>(),
                        std::vector<float>(layout_.elements(), was));
    llama_.forward_backward(params_.as<float>(), gradients_.as<float>(),
                            {.inputs = inputs, .targets = targets_}, 0.5F, model::Weights::kNew,
                            before);
    std::vector<float> results = gradients();
    results.push_back(llama_.mean_loss());
    return results;
  }
  // Mean losses of so many AdamW steps, each on a batch of its own.
  std::vector<double> learn(optim::FlatOps& flat, int steps, Rounds rounds = Rounds::kModel) {
    testing::put_floats(device_, params_.as<float>(), host_params_);
    const optim::DecayRange all{.first = 0, .count = layout_.elements(), .decays = true};
    auto inner =
        value_of(optim::InnerAdamW::create({}, layout_.elements(), {&all, 1}, device_, flat));
    std::vector<double> losses;
    Rng rng(5);
    auto known = model::Weights::kNew;
    for (int step = 1; step <= steps; ++step) {
      speak(rng);
      llama_.forward_backward(params_.as<float>(), gradients_.as<float>(),
                              {.inputs = inputs_, .targets = targets_}, 1.0F, known);
      losses.push_back(llama_.mean_loss());
      DeviceSpan<bf16> rounded;
      if (rounds == Rounds::kOptimizer) rounded = ops_.rounded_weights(params_.as<float>());
      known = rounded.size > 0 ? model::Weights::kSame : model::Weights::kNew;
      inner.step(static_cast<std::uint64_t>(step), kLearningRate,
                 {params_.as<float>(), gradients_.as<float>(), rounded});
    }
    return losses;
  }
  std::vector<float> gradients() { return testing::floats_of(device_, gradients_.as<float>()); }

 private:
  // A batch of a language in which the next token mostly follows from the last.
  void speak(Rng& rng) {
    auto token = static_cast<std::int32_t>(rng.below(kSpoken));
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      inputs_[i] = token;
      token = (3 * token + 1 + (rng.chance(0.1) ? 1 : 0)) % kSpoken;
      targets_[i] = token;
    }
  }
  Buffer floats() {
    return value_of(device_.allocate(MemoryKind::kDevice, layout_.elements() * sizeof(float)));
  }

  Device& device_;
  model::LayerOps& ops_;
  model::ParamLayout layout_;
  std::vector<float> host_params_;
  Buffer params_, gradients_;
  model::Llama llama_;
  std::vector<std::int32_t> inputs_, targets_;
};

double mean_from(const std::vector<double>& losses, std::size_t first) {
  const auto begin = losses.begin() + static_cast<std::ptrdiff_t>(first);
  return std::accumulate(begin, begin + kWindow, 0.0) / kWindow;
}

}  // namespace

StepDifference step_difference(Device& device, model::LayerOps& ops, std::int64_t head_width) {
  model::LlamaConfig config = kConfig;
  config.width = config.heads * head_width;
  CpuDevice host;
  model::ReferenceLayerOps<float> reference(ops.activations());
  Trained expected(host, reference, config);
  const std::vector<float> scales{1.0F, 1.25F};
  std::vector<float> losses;
  std::vector<std::vector<float>> gradients;
  for (const float scale : scales) {
    losses.push_back(expected.step(scale));
    gradients.push_back(expected.gradients());
  }
  StepDifference worst{0, 0};
  for (const auto recompute :
       {model::Recompute::kNorms, model::Recompute::kGates, model::Recompute::kBlocks}) {
    model::BatchShape shape = kShape;
    shape.recompute = recompute;
    shape.large_chunks = recompute == model::Recompute::kGates;
    Trained actual(device, ops, config, shape);
    for (std::size_t i = 0; i < scales.size(); ++i) {
      testing::note_worst(worst.loss, std::abs(actual.step(scales[i]) / losses[i] - 1.0));
      testing::note_worst(worst.gradients, model::relative_error(actual.gradients(), gradients[i]));
    }
  }
  return worst;
}

namespace {

bool same_bits(const std::vector<float>& left, const std::vector<float>& right) {
  return std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

}  // namespace

bool replay_repeats(Device& device, model::LayerOps& ops, const model::LlamaConfig& config,
                    const model::BatchShape& shape) {
  Trained trained(device, ops, config, shape);
  trained.rehearse();
  std::vector<std::vector<float>> results;
  for (const std::size_t turn : {0U, 3U, 0U, 3U, 0U}) {
    results.push_back(trained.step_of(turn, model::Gradients::kSet));
  }
  const std::vector<float> added = trained.step_of(0, model::Gradients::kAdd);
  CHECK(model::relative_error(results[0], added) < 1e-5);
  CHECK(std::isfinite(results[0].back()));
  CHECK(!same_bits(results[0], results[1]));
  return same_bits(results[0], results[2]) && same_bits(results[0], results[4]) &&
         same_bits(results[1], results[3]);
}

bool step_repeats(Device& device, model::LayerOps& ops, const model::LlamaConfig& config,
                  const model::BatchShape& shape) {
  const auto step = [&] {
    Trained trained(device, ops, config, shape);
    std::vector<float> results{trained.step(1.0F)};
    const std::vector<float> gradients = trained.gradients();
    results.insert(results.end(), gradients.begin(), gradients.end());
    return results;
  };
  const std::vector<float> first = step(), again = step();
  CHECK(std::isfinite(first.front()));
  CHECK(std::any_of(first.begin() + 1, first.end(), [](float value) { return value != 0; }));
  return same_bits(first, again);
}

bool rounded_repeats(Device& device, model::LayerOps& ops, optim::FlatOps& flat) {
  constexpr int kSteps = 6;
  const auto before = Trained(device, ops).learn(flat, kSteps, Rounds::kModel);
  const auto after = Trained(device, ops).learn(flat, kSteps, Rounds::kOptimizer);
  CHECK(std::isfinite(before.back()));
  CHECK(before.front() != before.back());
  return before == after;
}

CurveDifference curve_difference(Device& device, model::LayerOps& ops, optim::FlatOps& flat,
                                 int steps) {
  CpuDevice host;
  ThreadTeam alone(1);
  const auto host_flat = optim::make_cpu_flat_ops(alone);
  model::ReferenceLayerOps<float> reference(ops.activations());
  const std::vector<double> actual = Trained(device, ops).learn(flat, steps);
  const std::vector<double> expected = Trained(host, reference).learn(*host_flat, steps);
  CurveDifference difference{.worst = 0,
                             .first_loss = mean_from(expected, 0),
                             .last_loss = mean_from(expected, expected.size() - kWindow)};
  for (std::size_t first = 0; first + kWindow <= expected.size(); ++first) {
    const double ratio = mean_from(actual, first) / mean_from(expected, first);
    testing::note_worst(difference.worst, std::abs(ratio - 1.0));
  }
  return difference;
}

}  // namespace starling::cuda
