// A sequence that is computed piece by piece is the sequence that is computed at once.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "base/cpu_device.h"
#include "base/rng.h"
#include "model/cpu/cpu_layer_ops.h"
#include "model/init.h"
#include "model/llama.h"
#include "model/reference_layer_ops.h"
#include "tests/model/operator_cases.h"

namespace starling::model {

namespace {

constexpr std::int64_t kContext = 150;  // some blocks of queries

// Sums of other lengths and orders through three layers of large weights; a key at a wrong place is
// off by a tenth and more.
constexpr double kSame = 1e-4;

LlamaConfig grouped_and_tied() {
  return {.vocabulary = 61,
          .width = 48,
          .layers = 3,
          .heads = 4,
          .kv_heads = 2,
          .ffn = 70,
          .context = kContext};
}

LlamaConfig untied_and_stretched() {
  LlamaConfig config = grouped_and_tied();
  config.kv_heads = 4;
  config.tied_head = false;
  config.rope_factor = 4.0F;
  config.rope_low_frequency = 1.0F;
  config.rope_high_frequency = 4.0F;
  config.rope_original_context = 40;
  return config;
}

struct Model {
  Model(const LlamaConfig& config, LayerOps& ops, BatchShape shape = {1, kContext})
      : layout(ParamLayout::plan(config, 2).value()),
        params(layout.elements()),
        llama(Llama::create(config, layout, shape, device, ops).value()) {
    initialise(layout, 7, params);
    for (float& value : params) value *= 4;  // so that attention is not nearly even
    Rng rng(3);
    for (std::int64_t i = 0; i <= config.context; ++i) {
      tokens.push_back(
          static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(config.vocabulary))));
    }
    logits.resize(static_cast<std::size_t>(config.vocabulary));
  }
  DeviceSpan<const float> weights() const { return {params.data(), params.size()}; }
  std::span<const std::int32_t> piece(std::size_t first, std::size_t count) const {
    return std::span(tokens).subspan(first, count);
  }
  TokenBatch batch(std::size_t first, std::size_t count) const {
    return {.inputs = piece(first, count), .targets = piece(first + 1, count)};
  }
  const std::vector<float>& extend(std::size_t first, std::size_t count) {
    llama.extend(weights(), piece(first, count), logits);
    return logits;
  }
  std::vector<float> at_once(std::size_t count) {
    std::vector<float> expected(logits.size());
    llama.next_token_logits(weights(), piece(0, count), expected);
    return expected;
  }

  CpuDevice device;
  ParamLayout layout;
  std::vector<float> params;
  Llama llama;
  std::vector<std::int32_t> tokens;
  std::vector<float> logits;
};

void compare(const LlamaConfig& config, LayerOps& ops) {
  Model whole(config, ops), piecewise(config, ops);
  std::vector<std::vector<float>> expected;
  for (std::size_t count = 1; count <= kContext; ++count) {
    expected.push_back(whole.at_once(count));
  }
  Rng rng(11);
  for (const std::size_t longest : {std::size_t{1}, std::size_t{7}, std::size_t{100}}) {
    CAPTURE(longest);
    piecewise.llama.rewind(0);
    for (std::size_t done = 0; done < kContext;) {
      const std::size_t count = std::min<std::size_t>(1 + rng.below(longest), kContext - done);
      piecewise.extend(done, count);
      done += count;
      CAPTURE(done);
      CHECK(relative_error(piecewise.logits, expected[done - 1]) < kSame);
      CHECK(piecewise.llama.sequence_tokens() == static_cast<std::int64_t>(done));
    }
  }
}

}  // namespace

TEST_CASE("pieces of any length give the logits of the whole at every position") {
  ThreadTeam team(2);
  const auto ops = make_cpu_layer_ops(team);
  compare(grouped_and_tied(), *ops);
  compare(untied_and_stretched(), *ops);
}

TEST_CASE("the reference execution computes pieces too") {
  ReferenceLayerOps<float> ops;
  compare(untied_and_stretched(), ops);
}

TEST_CASE("a sequence that was rewound goes on in another way as if there had been no first") {
  ThreadTeam team(2);
  const auto ops = make_cpu_layer_ops(team);
  Model model(grouped_and_tied(), *ops);
  const std::vector<float> expected = model.at_once(90);
  model.llama.rewind(0);
  model.extend(0, 40);
  const std::vector<float> first = model.extend(100, 30);
  model.llama.rewind(40);
  CHECK(relative_error(model.extend(40, 50), expected) < kSame);
  model.llama.rewind(40);
  CHECK(relative_error(model.extend(100, 30), first) < kSame);
}

TEST_CASE("the losses of pieces are those of a batch") {
  ThreadTeam team(2);
  const auto ops = make_cpu_layer_ops(team);
  Model model(untied_and_stretched(), *ops);
  model.llama.forward(model.weights(), model.batch(0, kContext));
  const double expected = double{model.llama.mean_loss()} * kContext;
  CHECK(model.llama.sequence_tokens() == 0);
  double sum = model.llama.extend_losses(model.weights(), model.batch(0, 1));
  sum += model.llama.extend_losses(model.weights(), model.batch(1, 80));
  sum += model.llama.extend_losses(model.weights(), model.batch(81, kContext - 81));
  CHECK(sum == doctest::Approx(expected).epsilon(1e-5));
}

TEST_CASE("a batch ends the sequence, and a sequence leaves no trace in a batch") {
  ThreadTeam team(2);
  const auto ops = make_cpu_layer_ops(team);
  const BatchShape shape{.sequences = 3, .tokens = 20};
  Model model(grouped_and_tied(), *ops, shape), other(grouped_and_tied(), *ops, shape);
  std::vector<float> gradients(model.params.size()), expected(model.params.size());
  model.extend(0, kContext);
  model.llama.forward_backward(model.weights(), {gradients.data(), gradients.size()},
                               model.batch(0, 60), 1.0F);
  CHECK(model.llama.sequence_tokens() == 0);
  other.llama.forward_backward(other.weights(), {expected.data(), expected.size()},
                               other.batch(0, 60), 1.0F);
  CHECK(gradients == expected);
}

}  // namespace starling::model
