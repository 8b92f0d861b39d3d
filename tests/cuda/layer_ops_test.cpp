#include "cuda/layer_ops.cuh"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/emulated_layer_ops.h"
#include "tests/cuda/product_cases.h"
#include "tests/model/layer_ops_parity.h"
#include "tests/support/hosted_layer_ops.h"

namespace starling::cuda {

namespace {

using cuda_on_host::Order;
using model::DType;
using model::HeadShape;
using model::Operands;

}  // namespace

TEST_CASE("CUDA's operations agree with the reference on odd shapes") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    EmulatedLayerOps emulated(DType::kF32, seed % 2 == 0 ? Order::kForward : Order::kBackward);
    model::compare_with_reference(*emulated.ops, seed);
  }
}

TEST_CASE("CUDA's operations in bf16 agree with the reference that rounds where they do") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    EmulatedLayerOps emulated(DType::kBf16, seed % 2 == 0 ? Order::kForward : Order::kBackward);
    model::compare_with_reference(*emulated.ops, seed, Operands::kBf16,
                                  model::tolerance_rounded_twice);
  }
}

// As on a GPU, at sizes of real models.
TEST_CASE("CUDA's products have all their summands") {
  for (const DType activations : {DType::kF32, DType::kBf16}) {
    CAPTURE(activations);
    EmulatedLayerOps emulated(activations);
    check_products_of_ones(*emulated.ops, {.rows = 37, .outputs = 300, .inputs = 5});
    check_head(*emulated.ops, {.rows = 48, .outputs = 301, .inputs = 64});
    check_gate_up(*emulated.ops, {.rows = 48, .outputs = 176, .inputs = 64});
  }
}

// As on a GPU, whose memory tests cannot read: gpu_layer_ops_test.cpp.
TEST_CASE("operations whose tensors were copied to a device give what they give in place") {
  EmulatedLayerOps emulated(DType::kF32);
  const auto hosted = testing::make_hosted_layer_ops(emulated.device, std::move(emulated.ops));
  model::compare_with_reference(*hosted, 5);
}

TEST_CASE("attention on the tensor cores agrees with the reference on lengths of all kinds") {
  for (const std::int64_t head_width : {32, 64, 96, 128}) {
    for (const std::int64_t tokens : {1, 33, 64, 150}) {
      CAPTURE(head_width);
      CAPTURE(tokens);
      const HeadShape heads{

          .sequences = 1, .tokens = tokens, .heads = 2, .kv_heads = 1, .head_width = head_width};
      Rng rng(7), same(7);
      EmulatedLayerOps emulated(DType::kBf16, tokens % 2 == 0 ? Order::kForward : Order::kBackward);
      model::compare_with_reference(*emulated.ops, {model::attention_case<float>(rng, heads, 16)},
                                    {model::attention_case<double>(same, heads, 16)},
                                    Operands::kBf16);
    }
  }
}

TEST_CASE("the last queries of a sequence alone attend to what they attend to with all others") {
  for (const std::int64_t head_width : {32, 24}) {
    CAPTURE(head_width);
    const HeadShape heads{
        .sequences = 2, .tokens = 75, .heads = 4, .kv_heads = 2, .head_width = head_width};
    Rng rng(3);
    std::vector<bf16> qkv(static_cast<std::size_t>(2 * heads.tokens * heads.packed_width()));
    for (bf16& value : qkv) value = to_bf16(static_cast<float>(rng.normal()));
    EmulatedLayerOps emulated(DType::kBf16);
    const std::int64_t width = heads.heads * heads.head_width;
    const auto attended_from = [&](std::int64_t first) {
      std::vector<bf16> out(static_cast<std::size_t>(2 * heads.tokens * width), bf16{7});
      model::Owned<float> log_sums({2, heads.heads, heads.tokens});
      emulated.ops->attention(
          Lane::kCompute,
          {.out = model::TensorView<bf16>{out.data(), {2 * heads.tokens, width}},
           .log_sums = log_sums.view(),
           .qkv =
               model::TensorView<const bf16>{qkv.data(), {2 * heads.tokens, heads.packed_width()}},
           .shape = heads,
           .first = first});
      return out;
    };
    const std::vector<bf16> all = attended_from(0);
    for (const std::int64_t few : {1, 3, 70}) {
      CAPTURE(few);
      const std::vector<bf16> last = attended_from(heads.tokens - few);
      // The order of sums is not the same: a value may round to its neighbour.
      double difference = 0, norm = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto token = static_cast<std::int64_t>(i) / width % heads.tokens;
        if (token < heads.tokens - few) {
          CHECK(last[i].bits == 7);  // as it was
          continue;
        }
        difference += std::pow(to_float(all[i]) - to_float(last[i]), 2);
        norm += std::pow(to_float(all[i]), 2);
      }
      CHECK(std::sqrt(difference / norm) < 0x1p-8);
    }
  }
}

TEST_CASE("a token that comes often, and the last of a large vocabulary, have all their gradient") {
  for (const std::int64_t width : {8, 130}) {
    CAPTURE(width);
    const std::int64_t tokens = 1100, vocabulary = 1301;  // several ids a block, two rounds
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens), 17);
    for (std::size_t i = 0; i < ids.size(); i += 3) ids[i] = static_cast<std::int32_t>(1300 - i);
    model::Owned<float> gradient({tokens, width}, 1.0F), weight({vocabulary, width}, 0.5F);
    EmulatedLayerOps emulated(DType::kF32);
    emulated.ops->embed_backward(Lane::kCompute, {.weight_grad = weight.view(),
                                                  .out_grad = std::as_const(gradient).view(),
                                                  .tokens = {ids.data(), {tokens}}});
    for (std::int64_t id = 0; id < vocabulary; ++id) {
      const auto count = static_cast<float>(std::count(ids.begin(), ids.end(), id));
      for (const std::int64_t column : {std::int64_t{0}, width - 1}) {
        REQUIRE(weight.values[static_cast<std::size_t>(id * width + column)] == 0.5F + count);
      }
    }
  }
}

// More of them than a thread has at once: packs of a row, single elements of it, rows to add up.
TEST_CASE("RMSNorm agrees with the reference on wide rows and on many") {
  for (const model::Shape& shape : {model::Shape{3, 4104}, {2, 601}, {600, 40}}) {
    CAPTURE(shape.dims[1]);
    for (const DType activations : {DType::kF32, DType::kBf16}) {
      CAPTURE(static_cast<int>(activations));
      Rng rng(2), same(2);
      EmulatedLayerOps emulated(activations);
      model::compare_with_reference(*emulated.ops, {model::rms_norm_case<float>(rng, shape)},
                                    {model::rms_norm_case<double>(same, shape)},
                                    activations == DType::kF32 ? Operands::kAny : Operands::kBf16);
    }
  }
}

TEST_CASE("logits far apart and of a wide vocabulary give finite losses and gradients") {
  const std::int64_t vocabulary = 9000;  // more than one turn of a block
  model::Owned<float> logits({2, vocabulary}, -1e4F), losses({2});
  logits.values[123] = 1e4F;
  std::vector<bf16> gradient(logits.values.size());
  const std::vector<std::int32_t> targets{123, 8999};
  EmulatedLayerOps emulated(DType::kBf16);
  emulated.ops->cross_entropy(Lane::kCompute,
                              {.gradient = model::TensorView<bf16>{gradient.data(), logits.shape},
                               .losses = losses.view(),
                               .logits = logits.view(),
                               .targets = {targets.data(), {2}},
                               .scale = 1.0F});
  CHECK(losses.values[0] == 0.0F);
  CHECK(losses.values[1] == doctest::Approx(std::log(9000.0)));
  CHECK(to_float(gradient[123]) == 0.0F);
  CHECK(to_float(gradient.back()) == doctest::Approx(1.0 / 9000 - 1).epsilon(0x1p-8));
}

}  // namespace starling::cuda
