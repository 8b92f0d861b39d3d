#include "peer/bench/operator_cost.h"

#include <doctest/doctest.h>

#include "peer/bench/bench_machine.h"

namespace starling::peer {
namespace {

using model::ConstTensor;
using model::Shape;
using model::Tensor;

Tensor tensor(const Shape& shape) { return {nullptr, shape}; }
ConstTensor input(const Shape& shape) { return {nullptr, shape}; }

TEST_CASE("a product costs two operations for each weight and token, and every array once") {
  const Cost forward =
      cost_of(model::Linear<>{.out = tensor({5, 3}), .in = input({5, 7}), .weight = input({3, 7})});
  CHECK(forward.operations == 2 * 5 * 7 * 3);
  CHECK(forward.bytes == 4 * (5 * 3 + 5 * 7 + 3 * 7));
  const Cost backward = cost_of(model::LinearBackward<>{.in_grad = tensor({5, 7}),
                                                        .weight_grad = tensor({3, 7}),
                                                        .out_grad = input({5, 3}),
                                                        .in = input({5, 7}),
                                                        .weight = input({3, 7})});
  CHECK(backward.operations == 2 * forward.operations);
  CHECK(backward.bytes == 4 * (5 * 7 + 2 * 3 * 7 + 5 * 3 + 5 * 7 + 3 * 7));
}

// Two sequences of three tokens see 1 + 2 + 3 keys each, in four heads of two values.
TEST_CASE("attention costs what lies before each token, and nothing of what was left out") {
  const model::HeadShape shape{
      .sequences = 2, .tokens = 3, .heads = 4, .kv_heads = 2, .head_width = 2};
  model::Attention<> args{
      .out = tensor({6, 8}), .log_sums = tensor({2, 4, 3}), .qkv = input({6, 16}), .shape = shape};
  const double pairs = 2 * 4 * (1 + 2 + 3);
  CHECK(cost_of(args).operations == pairs * (2 * 2 + 2 * 2 + 1));
  CHECK(cost_of(args).bytes == 4 * (6 * 16 + 6 * 8));
  args.first = 2;
  CHECK(cost_of(args).operations == 2 * 4 * 3 * (2 * 2 + 2 * 2 + 1));
}

TEST_CASE("a gradient of another type than floats is written beside them, and costs its bytes") {
  const Shape shape{3, 10};
  const auto norm = [&](const model::TypedTensor& rounded, const model::ConstTypedTensor& out) {
    return cost_of(model::RmsNormBackward<>{.in_grad = tensor(shape),
                                            .in_grad_rounded = rounded,
                                            .gain_grad = tensor({10}),
                                            .out_grad = out,
                                            .in = input(shape),
                                            .gain = input({10}),
                                            .inverse_rms = input({3})})
        .bytes;
  };
  const auto entropy = [&](const model::TypedTensor& gradient) {
    return cost_of(model::CrossEntropy<>{.gradient = gradient,
                                         .losses = tensor({3}),
                                         .logits = tensor(shape),
                                         .targets = {nullptr, Shape{3}}})
        .bytes;
  };
  const model::TypedTensor rounded(nullptr, model::DType::kBf16, shape);
  CHECK(norm(tensor(shape), tensor(shape)) == 30 * (4 + 4 + 2 * 4));
  CHECK(norm(rounded, rounded) == 30 * (4 + 2 + 2 * 4 + 2));
  CHECK(entropy(tensor(shape)) == 30 * (4 + 4));
  CHECK(entropy(rounded) == 30 * (4 + 2));
}

TEST_CASE("an embedding's gradient touches no more rows than there are tokens") {
  const Cost few = cost_of(model::EmbedBackward<>{
      .weight_grad = tensor({100, 4}), .out_grad = input({3, 4}), .tokens = {nullptr, Shape{3}}});
  CHECK(few.bytes == 4 * (3 * 4 + 2 * 3 * 4));
  const Cost many = cost_of(model::EmbedBackward<>{
      .weight_grad = tensor({2, 4}), .out_grad = input({3, 4}), .tokens = {nullptr, Shape{3}}});
  CHECK(many.bytes == 4 * (3 * 4 + 2 * 2 * 4));
}

TEST_CASE("a training step is counted by the matrices and the causal half of attention") {
  const model::LlamaConfig config{.vocabulary = 256,
                                  .width = 128,
                                  .layers = 4,
                                  .heads = 4,
                                  .kv_heads = 4,
                                  .ffn = 352,
                                  .context = 128};
  const double matrices = 4 * (3 * 128 * 128 + 128 * 128 + 3 * 128 * 352) + 256 * 128;
  CHECK(training_operations_per_token(config, 128) == 6 * matrices + 6.0 * 4 * 128 * 128);
}

TEST_CASE("the floor of an operator is by its operations or by its bytes, whichever takes longer") {
  MachineSpeed machine;
  machine.fp32 = 100;
  machine.bf16 = 400;
  machine.copy = 10;
  machine.copy_past = 20;
  const Cost heavy{.operations = 1000, .bytes = 20}, wide{.operations = 100, .bytes = 200};
  CHECK(floor_seconds(heavy, machine, "fp32") == 10);
  CHECK(floor_seconds(heavy, machine, "bf16") == 2.5);
  CHECK(floor_seconds(wide, machine, "fp32") == 10);
  machine.bf16 = 0;  // it has no such instructions
  CHECK(floor_seconds(heavy, machine, "bf16") == 10);
}

}  // namespace
}  // namespace starling::peer
