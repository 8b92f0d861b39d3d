#include "model/llama.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <memory>
#include <vector>

#include "base/cpu_device.h"
#include "base/rng.h"
#include "model/cpu/cpu_layer_ops.h"
#include "model/init.h"
#include "model/reference_layer_ops.h"
#include "tests/model/cpu/plain_gemm_kernel.h"
#include "tests/model/golden_file.h"
#include "tests/model/operator_cases.h"

namespace starling::model {

static_assert(!std::is_copy_constructible_v<Llama>);
static_assert(std::is_nothrow_move_constructible_v<Buffer>);

namespace {

constexpr LlamaConfig kSmall{.vocabulary = 61,
                             .width = 48,
                             .layers = 3,
                             .heads = 4,
                             .kv_heads = 2,
                             .ffn = 70,
                             .context = 96};

ParamLayout plan(const LlamaConfig& config) {
  Result<ParamLayout> layout = ParamLayout::plan(config, 2);
  REQUIRE(layout.ok());
  return std::move(layout).value();
}

// A model with its parameters, gradients and device, on the host.
struct Trained {
  Trained(const LlamaConfig& config, BatchShape shape, LayerOps& ops)
      : layout(plan(config)),
        params(layout.elements()),
        gradients(layout.elements()),
        llama(make(config, shape, ops)) {
    initialise(layout, 7, params);
  }
  Llama make(const LlamaConfig& config, BatchShape shape, LayerOps& ops) {
    Result<Llama> made = Llama::create(config, layout, shape, device, ops);
    REQUIRE(made.ok());
    return std::move(made).value();
  }
  DeviceSpan<const float> weights() const { return {params.data(), params.size()}; }
  void step(const TokenBatch& batch, float scale = 1.0F) {
    llama.forward_backward(weights(), {gradients.data(), gradients.size()}, batch, scale);
  }

  CpuDevice device;
  ParamLayout layout;
  std::vector<float> params, gradients;
  Llama llama;
};

struct Tokens {
  Tokens(const LlamaConfig& config, BatchShape shape, std::uint64_t seed) {
    Rng rng(seed);
    for (std::int64_t i = 0; i < shape.sequences * shape.tokens; ++i) {
      const auto bound = static_cast<std::uint64_t>(config.vocabulary);
      inputs.push_back(static_cast<std::int32_t>(rng.below(bound)));
      targets.push_back(static_cast<std::int32_t>(rng.below(bound)));
    }
  }
  TokenBatch batch() const { return {.inputs = inputs, .targets = targets}; }
  std::vector<std::int32_t> inputs, targets;
};

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

void compare_with_golden(const std::string& name, LayerOps& ops) {
  CAPTURE(name);
  const Golden golden(name);
  Trained trained(golden.config(), golden.shape(), ops);
  for (const ParamSlot& slot : trained.layout.slots()) {
    const std::span<const float> values = golden.floats(slot.name);
    REQUIRE(values.size() == slot.range.count);
    std::copy(values.begin(), values.end(),
              trained.params.begin() + static_cast<std::ptrdiff_t>(slot.range.first));
  }
  trained.step(golden.batch());
  CHECK(trained.llama.mean_loss() == doctest::Approx(golden.floats("loss")[0]).epsilon(1e-5));
  for (const ParamSlot& slot : trained.layout.slots()) {
    CAPTURE(slot.name);
    const auto actual =
        copy_of(std::span(trained.gradients).subspan(slot.range.first, slot.range.count));
    CHECK(relative_error(actual, copy_of(golden.floats("grad." + slot.name))) < 1e-4);
  }
  // Every prefix of the first sequence, as generation would ask.
  const auto vocabulary = static_cast<std::size_t>(golden.config().vocabulary);
  const auto tokens = static_cast<std::size_t>(golden.shape().tokens);
  for (std::size_t count = 1; count <= tokens; ++count) {
    CAPTURE(count);
    std::vector<float> logits(vocabulary);
    trained.llama.next_token_logits(trained.weights(), golden.batch().inputs.first(count), logits);
    const auto expected = golden.floats("logits").subspan((count - 1) * vocabulary, vocabulary);
    CHECK(relative_error(logits, copy_of(expected)) < 1e-4);
  }
}

}  // namespace

TEST_CASE("loss, logits and every gradient agree with PyTorch") {
  ThreadTeam team(2);
  const auto ops = make_cpu_layer_ops(team);
  compare_with_golden("tied_gqa", *ops);
  compare_with_golden("untied_mha", *ops);
}

TEST_CASE("the reference execution agrees with PyTorch too") {
  ReferenceLayerOps<float> ops;
  compare_with_golden("tied_gqa", ops);
  compare_with_golden("untied_mha", ops);
}

TEST_CASE("next token logits give the same loss as a forward over the sequence") {
  const BatchShape shape{.sequences = 1, .tokens = 70};
  ThreadTeam team(2);
  const auto ops = make_cpu_layer_ops(team);
  Trained trained(kSmall, shape, *ops);
  const Tokens tokens(kSmall, shape, 3);
  trained.llama.forward(trained.weights(), tokens.batch());
  const float mean = trained.llama.mean_loss();
  double sum = 0;
  for (std::size_t t = 0; t < tokens.inputs.size(); ++t) {
    std::vector<float> logits(static_cast<std::size_t>(kSmall.vocabulary));
    trained.llama.next_token_logits(trained.weights(), std::span(tokens.inputs).first(t + 1),
                                    logits);
    double denominator = 0;
    for (const float logit : logits) denominator += std::exp(static_cast<double>(logit));
    sum += std::log(denominator) - logits[static_cast<std::size_t>(tokens.targets[t])];
  }
  CHECK(mean == doctest::Approx(sum / 70).epsilon(1e-5));
  // Generation leaves the losses of the last batch alone.
  CHECK(trained.llama.mean_loss() == mean);
}

TEST_CASE("plain gradient descent lowers the loss in 20 steps") {
  const BatchShape shape{.sequences = 4, .tokens = 32};
  ThreadTeam team(2);
  const auto ops = make_cpu_layer_ops(team);
  Trained trained(kSmall, shape, *ops);
  const Tokens tokens(kSmall, shape, 11);
  trained.step(tokens.batch());
  const float first = trained.llama.mean_loss();
  CHECK(first == doctest::Approx(std::log(61.0)).epsilon(0.05));
  for (int step = 0; step < 20; ++step) {
    std::fill(trained.gradients.begin(), trained.gradients.end(), 0.0F);
    trained.step(tokens.batch());
    for (std::size_t i = 0; i < trained.params.size(); ++i) {
      trained.params[i] -= 0.3F * trained.gradients[i];
    }
  }
  trained.llama.forward(trained.weights(), tokens.batch());
  CHECK(trained.llama.mean_loss() < 0.9F * first);
}

TEST_CASE("two runs give the same bits") {
  const LlamaConfig config{.layers = 1, .context = 100};  // large enough for several tasks
  const BatchShape shape{.sequences = 12, .tokens = 100};
  const Tokens tokens(config, shape, 5);
  ThreadTeam team(2), other_team(2);
  const auto ops = make_cpu_layer_ops(team), other_ops = make_cpu_layer_ops(other_team);
  Trained first(config, shape, *ops), second(config, shape, *other_ops);
  for (int run = 0; run < 3; ++run) {
    CAPTURE(run);
    first.step(tokens.batch());
    second.step(tokens.batch());
    CHECK(first.gradients == second.gradients);
    CHECK(first.llama.mean_loss() == second.llama.mean_loss());
  }
}

TEST_CASE("gradients are added to and follow the scale") {
  const BatchShape shape{.sequences = 2, .tokens = 24};
  ThreadTeam team(2);
  const auto ops = make_cpu_layer_ops(team);
  Trained twice(kSmall, shape, *ops), scaled(kSmall, shape, *ops);
  const Tokens tokens(kSmall, shape, 9);
  twice.step(tokens.batch());
  twice.step(tokens.batch());
  scaled.step(tokens.batch(), 2.0F);
  CHECK(relative_error(twice.gradients, scaled.gradients) < 1e-6);
  CHECK(twice.llama.mean_loss() == scaled.llama.mean_loss());
}

TEST_CASE("a batch of several head chunks is the mean of its sequences") {
  const BatchShape shape{.sequences = 13, .tokens = 90};
  static_assert(13 * 90 > head_chunk(kSmall.vocabulary, DType::kF32));
  ThreadTeam team(2);
  const auto ops = make_cpu_layer_ops(team);
  Trained whole(kSmall, shape, *ops), parts(kSmall, {.sequences = 1, .tokens = 90}, *ops);
  const Tokens tokens(kSmall, shape, 13);
  whole.step(tokens.batch());
  double losses = 0;
  for (std::size_t i = 0; i < 13; ++i) {
    parts.step({.inputs = std::span(tokens.inputs).subspan(i * 90, 90),
                .targets = std::span(tokens.targets).subspan(i * 90, 90)},
               1.0F / 13.0F);
    losses += parts.llama.mean_loss() / 13.0;
  }
  CHECK(whole.llama.mean_loss() == doctest::Approx(losses).epsilon(1e-6));
  CHECK(relative_error(whole.gradients, parts.gradients) < 1e-5);
  whole.llama.forward(whole.weights(), tokens.batch());
  CHECK(whole.llama.mean_loss() == doctest::Approx(losses).epsilon(1e-6));
}

TEST_CASE("with a large vocabulary fewer tokens have logits at a time") {
  static_assert(head_chunk(256, DType::kF32) == 1024);
  static_assert(head_chunk(20'000, DType::kF32) == 832);
  static_assert(head_chunk(32'000, DType::kF32) == 512);
  static_assert(head_chunk(32'000, DType::kBf16) == 1024);
  static_assert(head_chunk(128'256, DType::kBf16) == 512);
  static_assert(head_chunk(32'000, DType::kBf16, true) == 2048);
  LlamaConfig config = kSmall;
  config.vocabulary = 70'001;
  config.width = 16;
  config.layers = 1;
  static_assert(6 * 90 > head_chunk(70'001, DType::kF32));
  ThreadTeam team(2);
  const auto ops = make_cpu_layer_ops(team);
  Trained model(config, {.sequences = 6, .tokens = 90}, *ops);
  const Tokens tokens(config, {.sequences = 6, .tokens = 90}, 13);
  model.step(tokens.batch());
  CHECK(model.llama.mean_loss() == doctest::Approx(std::log(70'001)).epsilon(0.05));

  // In bf16 their gradients are apart.
  const auto arena = [&](std::int64_t vocabulary, DType between) {
    config.vocabulary = vocabulary;
    return activation_arena_bytes(config, {.sequences = 6, .tokens = 90}, between);
  };
  CHECK(arena(70'016, DType::kF32) - arena(60'000, DType::kF32) == 512 * 4 * 10'016);
  CHECK(arena(70'016, DType::kBf16) - arena(60'000, DType::kBf16) == 512 * (4 + 2) * 10'016);
}

TEST_CASE("activation memory is known before anything is allocated") {
  const BatchShape shape{.sequences = 3, .tokens = 33};
  ThreadTeam team(1);
  const auto ops = make_cpu_layer_ops(team);
  const Trained trained(kSmall, shape, *ops);
  CHECK(trained.llama.activation_bytes() == Llama::activation_bytes(kSmall, shape, DType::kF32));
  CHECK(Llama::activation_bytes(kSmall, {.sequences = 4, .tokens = 33}, DType::kF32) >
        Llama::activation_bytes(kSmall, shape, DType::kF32));
  // At the very least what the layers keep, by the formula of activations.h; bf16 saves half of
  // what lies between products, and in all of the memory more than is saved in the layers alone.
  const std::size_t rows = 3 * 99, between = 48 + (48 + 2 * 2 * 12) + 2 * 70;
  const std::size_t kept = rows * 4 * (2 * 48 + 4) + rows * 4 * between;
  CHECK(trained.llama.activation_bytes() > kept);
  CHECK(Llama::activation_bytes(kSmall, shape, DType::kBf16) <
        trained.llama.activation_bytes() - rows * 2 * between);
}

TEST_CASE("gradients that are set are those that are added to zeros, whatever was there") {
  for (const bool tied : {true, false}) {
    CAPTURE(tied);
    LlamaConfig config = kSmall;
    config.tied_head = tied;
    const Tokens tokens(config, {.sequences = 2, .tokens = 33}, 5);
    ThreadTeam team(2);
    std::vector<std::unique_ptr<LayerOps>> all;
    all.push_back(make_cpu_layer_ops(team));
    all.push_back(std::make_unique<ReferenceLayerOps<float>>());
    for (const GemmKernel* kernel : kernels_to_test()) {
      all.push_back(make_cpu_layer_ops(team, *kernel));
    }
    for (const auto& each : all) {
      Trained added(config, {.sequences = 2, .tokens = 33}, *each);
      Trained set(config, {.sequences = 2, .tokens = 33}, *each);
      added.step(tokens.batch());
      std::fill(set.gradients.begin(), set.gradients.end(), 7.0F);
      set.llama.forward_backward(set.weights(), {set.gradients.data(), set.gradients.size()},
                                 tokens.batch(), 1.0F, Weights::kNew, Gradients::kSet);
      CHECK(set.gradients == added.gradients);
    }
  }
}

TEST_CASE("what is computed again is what was kept, bit for bit, and costs less memory") {
  LlamaConfig config = kSmall;
  config.layers = 4;
  const Tokens tokens(config, {.sequences = 2, .tokens = 33}, 3);
  ThreadTeam team(2);
  const auto ops = make_cpu_layer_ops(team);
  std::vector<float> expected;
  for (const Recompute recompute : {Recompute::kNorms, Recompute::kGates, Recompute::kBlocks}) {
    CAPTURE(recompute);
    const BatchShape shape{.sequences = 2, .tokens = 33, .recompute = recompute};
    Trained model(config, shape, *ops);
    for (int pass = 0; pass < 2; ++pass) model.step(tokens.batch());
    CHECK(model.llama.activation_bytes() == Llama::activation_bytes(config, shape, DType::kF32));
    if (recompute == Recompute::kNorms) expected = model.gradients;
    CHECK(model.gradients == expected);
  }

  // By the formula of activations.h; lists are rounded up to whole cache lines.
  const auto bytes = [&](Recompute recompute, std::int64_t layers) {
    config.layers = layers;
    const BatchShape shape{.sequences = 2, .tokens = 64, .recompute = recompute};
    return Llama::activation_bytes(config, shape, DType::kBf16);
  };
  const std::size_t rows = 128, width = static_cast<std::size_t>(config.width);
  const auto of_a_layer = [&](Recompute recompute) {
    return bytes(recompute, 3) - bytes(recompute, 2);
  };
  CHECK(of_a_layer(Recompute::kBlocks) == rows * 4 * width);
  CHECK(of_a_layer(Recompute::kGates) - of_a_layer(Recompute::kNorms) ==
        rows * (8 + 2 * 2 * width));
}

TEST_CASE("a batch or a layout that does not fit the configuration is refused") {
  CpuDevice device;
  ThreadTeam team(1);
  const auto ops = make_cpu_layer_ops(team);
  const ParamLayout layout = plan(kSmall);
  const auto code = [&](const LlamaConfig& config, BatchShape shape) {
    Result<Llama> llama = Llama::create(config, layout, shape, device, *ops);
    REQUIRE(!llama.ok());
    return llama.error().code();
  };
  CHECK(code(kSmall, {.sequences = 1, .tokens = 97}) == ErrorCode::kInvalidConfig);
  CHECK(code(kSmall, {.sequences = 0, .tokens = 8}) == ErrorCode::kInvalidConfig);
  LlamaConfig other = kSmall;
  other.ffn += 1;
  CHECK(code(other, {.sequences = 1, .tokens = 8}) == ErrorCode::kIncompatible);
  other.heads = 5;
  CHECK(code(other, {.sequences = 1, .tokens = 8}) == ErrorCode::kInvalidConfig);
}

TEST_CASE("a token id outside the vocabulary stops the process before it is an index") {
  const BatchShape shape{.sequences = 1, .tokens = 8};
  ThreadTeam team(1);
  const auto ops = make_cpu_layer_ops(team);
  Trained trained(kSmall, shape, *ops);
  for (const std::int32_t bad : {-1, 61, 1 << 30}) {
    CAPTURE(bad);
    Tokens tokens(kSmall, shape, 1);
    tokens.targets[5] = bad;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      std::signal(SIGABRT, SIG_DFL);  // not the test runner's
      ::close(STDERR_FILENO);
      trained.llama.forward(trained.weights(), tokens.batch());
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
  }
}

}  // namespace starling::model
