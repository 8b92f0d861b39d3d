#include "peer/machine/backend.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/rng.h"
#include "model/init.h"
#include "model/llama.h"
#include "optim/inner_adamw.h"

namespace starling::peer {
namespace {

constexpr model::LlamaConfig kModel{.vocabulary = 64,
                                    .width = 64,
                                    .layers = 2,
                                    .heads = 2,
                                    .kv_heads = 1,
                                    .ffn = 96,
                                    .context = 32};
constexpr model::BatchShape kBatch{.sequences = 8, .tokens = 32};
constexpr int kSteps = 120, kCompared = 40;  // the last ones

// A successor that is right two times in three: there is something to learn and something left.
void draw(Rng& rng, std::vector<std::int32_t>& inputs, std::vector<std::int32_t>& targets) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = static_cast<std::int32_t>(rng.below(64));
    const auto next = rng.below(3) > 0 ? static_cast<std::uint64_t>(inputs[i]) * 5 + 3 : rng.next();
    targets[i] = static_cast<std::int32_t>(next % 64);
  }
}

std::vector<float> losses_of(ComputeType type) {
  Backend backend = make_backend("cpu", {.threads = 2}, type).value();
  const auto layout = model::ParamLayout::plan(kModel, 1).value();
  auto llama =
      model::Llama::create(kModel, layout, kBatch, *backend.device, *backend.layers).value();
  std::vector<float> params(layout.elements()), gradients(layout.elements());
  model::initialise(layout, 1, params);
  const optim::DecayRange all{0, params.size(), true};
  auto adamw =
      optim::InnerAdamW::create({}, params.size(), {&all, 1}, *backend.device, *backend.flat)
          .value();
  Rng rng(9);
  std::vector<std::int32_t> inputs(256), targets(256);
  std::vector<float> losses;
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    draw(rng, inputs, targets);
    gradients.assign(gradients.size(), 0.0F);
    llama.forward_backward({params.data(), params.size()}, {gradients.data(), gradients.size()},
                           {inputs, targets}, 1);
    losses.push_back(llama.mean_loss());
    adamw.step(step, 3e-3F, {{params.data(), params.size()}, {gradients.data(), gradients.size()}});
  }
  return losses;
}

double mean_of_last(const std::vector<float>& losses) {
  double sum = 0;
  for (int i = kSteps - kCompared; i < kSteps; ++i) sum += losses[static_cast<std::size_t>(i)];
  return sum / kCompared;
}

TEST_CASE("a model learns in bf16 as it does in fp32, with the same bits each time") {
  if (!model::has_bf16()) {
    MESSAGE("skipped: this processor has no arithmetic for bf16");
    return;
  }
  const auto fp32 = losses_of(ComputeType::kFp32), bf16 = losses_of(ComputeType::kBf16);
  CHECK(bf16 != fp32);
  CHECK(losses_of(ComputeType::kBf16) == bf16);
  CHECK(mean_of_last(fp32) <
        0.8 * static_cast<double>(fp32.front()));  // there is something to compare
  CHECK(mean_of_last(bf16) == doctest::Approx(mean_of_last(fp32)).epsilon(0.005));
}

TEST_CASE("bf16 is taken, or refused with what would work") {
  auto asked = make_backend("cpu", {.threads = 1}, ComputeType::kBf16);
  if (model::has_bf16()) {
    REQUIRE(asked.ok());
    CHECK(asked.value().title == "cpu, 1 thread, bf16");
  } else {
    REQUIRE(!asked.ok());
    CHECK(asked.error().code() == ErrorCode::kInvalidConfig);
    CHECK(asked.error().message().find("\"auto\" and \"fp32\" work here") != std::string::npos);
  }
  const Backend best = make_backend("cpu", {.threads = 1}, ComputeType::kAuto).value();
  CHECK((best.compute == model::Compute::kBf16) == model::bf16_is_faster());
  CHECK(make_backend("cpu", {.threads = 1}).value().title == "cpu, 1 thread");
}

}  // namespace
}  // namespace starling::peer
