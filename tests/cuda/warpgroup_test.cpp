// Attention by warpgroups on the emulator: the same operations as by warps, in the same order.
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "base/rng.h"
#include "tests/cuda/emulated_layer_ops.h"
#include "tests/model/layer_ops_parity.h"

namespace starling::cuda {

namespace {

using cuda_on_host::Order;
using model::DType;
using model::HeadShape;

struct Attended {
  std::vector<bf16> out, qkv_grad;
};

std::vector<bf16> random_values(Rng& rng, std::int64_t count) {
  std::vector<bf16> values(static_cast<std::size_t>(count));
  for (bf16& value : values) value = to_bf16(rng.normal());
  return values;
}

Attended attend(bool warpgroups, const HeadShape& shape, std::int64_t first) {
  EmulatedLayerOps emulated(DType::kBf16, Order::kForward, warpgroups);
  const std::int64_t rows = shape.sequences * shape.tokens, width = shape.heads * shape.head_width;
  Rng rng(11);
  const auto qkv = random_values(rng, rows * shape.packed_width());
  const auto out_grad = random_values(rng, rows * width);
  Attended result{std::vector<bf16>(out_grad.size()), std::vector<bf16>(qkv.size())};
  model::Owned<float> log_sums({shape.sequences, shape.heads, shape.tokens});
  const model::Shape packed{rows, shape.packed_width()}, whole{rows, width};
  const model::TensorView<const bf16> inputs{qkv.data(), packed};
  emulated.ops->attention(Lane::kCompute, {.out = model::TensorView<bf16>{result.out.data(), whole},
                                           .log_sums = log_sums.view(),
                                           .qkv = inputs,
                                           .shape = shape,
                                           .first = first});
  if (first > 0) return result;
  model::Owned<float> cosines({shape.tokens, shape.head_width / 2}, 0.6F),
      sines({shape.tokens, shape.head_width / 2}, 0.8F);
  emulated.ops->attention_backward(
      Lane::kCompute, {.qkv_grad = model::TensorView<bf16>{result.qkv_grad.data(), packed},
                       .out_grad = model::TensorView<const bf16>{out_grad.data(), whole},
                       .out = model::TensorView<const bf16>{result.out.data(), whole},
                       .log_sums = log_sums.view(),
                       .qkv = inputs,
                       .rotations = {cosines.view(), sines.view()},
                       .shape = shape});
  return result;
}

bool same_bits(const std::vector<bf16>& left, const std::vector<bf16>& right) {
  return std::memcmp(left.data(), right.data(), left.size() * sizeof(bf16)) == 0;
}

}  // namespace

TEST_CASE("attention by warpgroups agrees with the reference on lengths of all kinds") {
  for (const std::int64_t head_width : {64, 128}) {
    for (const std::int64_t tokens : {1, 33, 64, 150}) {
      CAPTURE(head_width);
      CAPTURE(tokens);
      const HeadShape heads{
          .sequences = 1, .tokens = tokens, .heads = 2, .kv_heads = 1, .head_width = head_width};
      Rng rng(7), same(7);
      EmulatedLayerOps emulated(DType::kBf16, tokens % 2 == 0 ? Order::kForward : Order::kBackward,
                                true);
      model::compare_with_reference(*emulated.ops, {model::attention_case<float>(rng, heads, 16)},
                                    {model::attention_case<double>(same, heads, 16)},
                                    model::Operands::kBf16);
    }
  }
}

TEST_CASE("attention has the same bits by warpgroups and by warps") {
  const HeadShape shape{.sequences = 2, .tokens = 150, .heads = 2, .kv_heads = 1, .head_width = 64};
  for (const std::int64_t first : {0, 77}) {
    CAPTURE(first);
    const Attended by_warps = attend(false, shape, first);
    const Attended by_warpgroups = attend(true, shape, first);
    CHECK(same_bits(by_warpgroups.out, by_warps.out));
    CHECK(same_bits(by_warpgroups.qkv_grad, by_warps.qkv_grad));
  }
}

}  // namespace starling::cuda
