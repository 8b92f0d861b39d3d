// A model's operations on a GPU: the same bodies as for the CPU's and for the emulator.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>

#include "tests/cuda/llama_step.h"
#include "tests/cuda/product_cases.h"
#include "tests/model/layer_ops_parity.h"
#include "tests/support/gpu.h"
#include "tests/support/hosted_layer_ops.h"

namespace starling::cuda {

namespace {

using model::DType;
using model::Operands;

template <class Check>
void on_the_gpu(DType activations, const Check& check) {
  testing::Gpu gpu = testing::open_gpu(STARLING_CUDA_MODULE);
  if (!gpu.device) {
    MESSAGE("skipped: no GPU: " << gpu.problem);
    return;
  }
  auto ops = gpu.module->make_layer_ops(*gpu.device, activations);
  if (!ops.ok()) FAIL(ops.error().message());
  check(*gpu.device, std::move(ops).value());
}

// With both types of activations, and tensors that the host holds.
void check_products(void (*check)(model::LayerOps& ops)) {
  for (const DType activations : {DType::kF32, DType::kBf16}) {
    CAPTURE(activations);
    on_the_gpu(activations, [&](Device& device, std::unique_ptr<model::LayerOps> ops) {
      check(*testing::make_hosted_layer_ops(device, std::move(ops)));
    });
  }
}

}  // namespace

// What a library leaves out where it splits a deep sum (reductions_for() in lt_products.cpp) shows
// in few rows and columns, where it splits most.
TEST_CASE("a GPU's products have all their summands, also where no tile divides the depth") {
  check_products([](model::LayerOps& ops) {
    for (const std::int64_t depth : {8191, 8192, 8200, 50257}) {
      for (const std::int64_t few : {1, 8, 64}) {
        check_products_of_ones(ops, {.rows = few, .outputs = few, .inputs = depth});
        check_products_of_ones(ops, {.rows = few, .outputs = depth, .inputs = few});
        check_products_of_ones(ops, {.rows = depth, .outputs = few, .inputs = few});
      }
    }
  });
}

TEST_CASE("a GPU's products of a real model's head and gates are those in double") {
  check_products([](model::LayerOps& ops) {
    for (const std::int64_t vocabulary : {32000, 50257}) {
      CAPTURE(vocabulary);
      check_head(ops, {.rows = 1024, .outputs = vocabulary, .inputs = 1024});
    }
    check_gate_up(ops, {.rows = 8192, .outputs = 2 * 2816, .inputs = 1024});
  });
}

TEST_CASE("a GPU's operations agree with the reference on odd shapes") {
  on_the_gpu(DType::kF32, [](Device& device, std::unique_ptr<model::LayerOps> ops) {
    const auto hosted = testing::make_hosted_layer_ops(device, std::move(ops));
    for (std::uint64_t seed = 0; seed < 24; ++seed) {
      CAPTURE(seed);
      model::compare_with_reference(*hosted, seed);
    }
  });
}

TEST_CASE("a GPU's operations in bf16 agree with the reference that rounds where they do") {
  on_the_gpu(DType::kBf16, [](Device& device, std::unique_ptr<model::LayerOps> ops) {
    const auto hosted = testing::make_hosted_layer_ops(device, std::move(ops));
    for (std::uint64_t seed = 0; seed < 24; ++seed) {
      CAPTURE(seed);
      model::compare_with_reference(*hosted, seed, Operands::kBf16, model::tolerance_on_a_gpu);
    }
  });
}

TEST_CASE("a GPU's attention agrees with the reference on heads and lengths of real models") {
  on_the_gpu(DType::kBf16, [](Device& device, std::unique_ptr<model::LayerOps> ops) {
    const auto hosted = testing::make_hosted_layer_ops(device, std::move(ops));
    for (const std::int64_t head_width : {32, 64, 80, 96, 128}) {
      for (const std::int64_t tokens : {1, 33, 64, 150, 515}) {
        CAPTURE(head_width);
        CAPTURE(tokens);
        const model::HeadShape heads{
            .sequences = 2, .tokens = tokens, .heads = 4, .kv_heads = 2, .head_width = head_width};
        Rng rng(7), same(7);
        model::compare_with_reference(*hosted, {model::attention_case<float>(rng, heads, 16)},
                                      {model::attention_case<double>(same, heads, 16)},
                                      Operands::kBf16, model::tolerance_on_a_gpu);
      }
    }
  });
}

TEST_CASE("a step on a GPU has the loss and gradients of one by the reference") {
  on_the_gpu(DType::kF32, [](Device& device, const std::unique_ptr<model::LayerOps>& ops) {
    const StepDifference worst = step_difference(device, *ops);
    CHECK(worst.loss < 1e-6);
    CHECK(worst.gradients < 1e-5);
  });
  on_the_gpu(DType::kBf16, [](Device& device, const std::unique_ptr<model::LayerOps>& ops) {
    for (const std::int64_t head_width : {32, 64, 128}) {
      CAPTURE(head_width);
      const StepDifference worst = step_difference(device, *ops, head_width);
      CHECK(worst.loss < 0x1p-10);
      CHECK(worst.gradients < 0x1p-6);
    }
  });
}

TEST_CASE("a step of a real model on a GPU gives the same bits again") {
  on_the_gpu(DType::kBf16, [](Device& device, const std::unique_ptr<model::LayerOps>& ops) {
    const model::LlamaConfig config{.vocabulary = 32000,
                                    .width = 1024,
                                    .layers = 2,
                                    .heads = 16,
                                    .kv_heads = 8,
                                    .ffn = 2816,
                                    .context = 1024};
    CHECK(step_repeats(device, *ops, config, {.sequences = 4, .tokens = 1024}));
    CHECK(replay_repeats(device, *ops, config, {.sequences = 4, .tokens = 1024}));
  });
}

TEST_CASE("two hundred steps on a GPU have the losses of the reference") {
  for (const DType activations : {DType::kF32, DType::kBf16}) {
    testing::Gpu gpu = testing::open_gpu(STARLING_CUDA_MODULE);
    if (!gpu.device) {
      MESSAGE("skipped: no GPU: " << gpu.problem);
      return;
    }
    auto ops = gpu.module->make_layer_ops(*gpu.device, activations);
    auto flat = gpu.module->make_flat_ops(*gpu.device);
    REQUIRE(ops.ok());
    REQUIRE(flat.ok());
    CHECK(rounded_repeats(*gpu.device, *ops.value(), *flat.value()));
    const CurveDifference curves = curve_difference(*gpu.device, *ops.value(), *flat.value(), 200);
    CHECK(curves.last_loss < 0.5 * curves.first_loss);
    CHECK(curves.worst < 0.005);
  }
}

}  // namespace starling::cuda
