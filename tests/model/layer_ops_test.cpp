#include <doctest/doctest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "base/bf16.h"
#include "model/cpu/cpu_exp.h"
#include "model/cpu/cpu_layer_ops.h"
#include "model/cpu/cpu_rows.h"
#include "model/cpu/cpu_scratch.h"
#include "model/cpu/packed_gemm.h"
#include "model/reference_layer_ops.h"
#include "tests/model/cpu/plain_gemm_kernel.h"
#include "tests/model/layer_ops_parity.h"
#include "tests/model/stored.h"
#include "tests/support/worst.h"

namespace starling::model {

namespace {

double dot(const Owned<double>& left, const Owned<double>& right) {
  double sum = 0;
  for (std::size_t i = 0; i < left.values.size(); ++i) sum += left.values[i] * right.values[i];
  return sum;
}

// d(out . out_grad) / d(inputs[input]) by central differences.
std::vector<double> differences(OperatorCase<double>& op, std::size_t input,
                                const Owned<double>& out_grad) {
  constexpr double kStep = 1e-5;
  ReferenceLayerOps<double> ops;
  std::vector<double> gradient;
  for (double& value : op.inputs[input].values) {
    const double middle = value;
    value = middle + kStep;
    const double above = dot(op.forward(ops, op.inputs), out_grad);
    value = middle - kStep;
    const double below = dot(op.forward(ops, op.inputs), out_grad);
    value = middle;
    gradient.push_back((above - below) / (2 * kStep));
  }
  return gradient;
}

}  // namespace

TEST_CASE("every backward of the reference agrees with finite differences in double") {
  ReferenceLayerOps<double> ops;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    for (auto& op : operator_cases<double>(rng, CaseSize::kSmall)) {
      CAPTURE(op.name);
      if (!op.backward) continue;
      const auto out_grad = random_tensor<double>(rng, op.forward(ops, op.inputs).shape);
      const auto gradients = op.backward(ops, op.inputs, out_grad);
      REQUIRE(gradients.size() == op.inputs.size());
      for (std::size_t input = 0; input < gradients.size(); ++input) {
        CAPTURE(input);
        CHECK(relative_error(gradients[input].values, differences(op, input, out_grad)) < 1e-6);
      }
    }
  }
}

TEST_CASE("the reference in float agrees with the reference in double") {
  ReferenceLayerOps<float> ops;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    CAPTURE(seed);
    compare_with_reference(ops, seed);
  }
}

TEST_CASE("the CPU operations agree with the reference on odd shapes for any number of threads") {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    CAPTURE(seed);
    ThreadTeam team(static_cast<int>(1 + seed % 3));
    const auto ops = make_cpu_layer_ops(team);
    compare_with_reference(*ops, seed);
  }
}

TEST_CASE("the CPU operations in bf16 agree with the reference that rounds where they do") {
  for (const GemmKernel* kernel : kernels_to_test()) {
    CAPTURE(kernel->name);
    for (std::uint64_t seed = 0; seed < 24; ++seed) {
      CAPTURE(seed);
      ThreadTeam team(static_cast<int>(1 + seed % 3));
      compare_with_reference(*make_cpu_layer_ops(team, *kernel), seed, Operands::kBf16);
    }
  }
}

// Loops that no instruction for bf16 is needed for.
TEST_CASE("gradients that the CPU's rows round to bf16 are those of the reference") {
  const Shape shape{7, 45}, row{7};
  const auto gradients_of = [&](const auto& norm_backward, const auto& entropy) {
    Rng rng(4);
    const Owned<float> in = random_tensor<float>(rng, shape),
                       gain = random_tensor<float>(rng, {45});
    const Stored out_grad(random_tensor<float>(rng, shape), DType::kBf16);
    const Owned<float> inverse_rms(row, 0.7F);
    Owned<float> sum = random_tensor<float>(rng, shape), gain_grad({45}), losses(row);
    Stored rounded(shape, DType::kBf16), logits_grad(shape, DType::kBf16);
    norm_backward({.in_grad = sum.view(),
                   .in_grad_rounded = rounded.view(),
                   .gain_grad = gain_grad.view(),
                   .out_grad = out_grad.view(),
                   .in = in.view(),
                   .gain = gain.view(),
                   .inverse_rms = inverse_rms.view()});
    CHECK(rounded.loaded<float>().values == Stored(sum, DType::kBf16).loaded<float>().values);
    Owned<float> logits = random_tensor<float>(rng, shape);
    for (float& logit : logits.values) logit *= 4;  // some targets are all but certain
    const std::vector<std::int32_t> targets{3, 44, 0, 9, 9, 20, 31};
    entropy({.gradient = logits_grad.view(),
             .losses = losses.view(),
             .logits = logits.view(),
             .targets = {targets.data(), row},
             .scale = 0.25F});
    return std::vector{sum, gain_grad, losses, logits_grad.loaded<float>()};
  };
  ReferenceLayerOps<float> reference(DType::kBf16);
  const auto expected = gradients_of(
      [&](const RmsNormBackward<>& args) { reference.rms_norm_backward(Lane::kCompute, args); },
      [&](const CrossEntropy<>& args) { reference.cross_entropy(Lane::kCompute, args); });
  const auto found = gradients_of(
      [&](const RmsNormBackward<>& args) {
        rms_norm_backward_rows(args, {0, 7}, args.gain_grad.data);
      },
      [&](const CrossEntropy<>& args) {
        cross_entropy_rows(args, {0, 7});
      });
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    const double allowed = i == 3 ? 0x1p-10 : 1e-6;  // a float's error tips a rounding over
    CHECK(relative_error(found[i].values, expected[i].values) < allowed);
  }
}

TEST_CASE("attention in bf16 agrees with the reference on heads and lengths of real models") {
  for (const GemmKernel* kernel : kernels_to_test()) {
    for (const std::int64_t head_width : {32, 64, 80, 96, 128}) {
      for (const std::int64_t tokens : {1, 33, 160, 300}) {
        CAPTURE(kernel->name);
        CAPTURE(head_width);
        CAPTURE(tokens);
        const HeadShape heads{
            .sequences = 2, .tokens = tokens, .heads = 4, .kv_heads = 2, .head_width = head_width};
        Rng rng(7), same(7);
        ThreadTeam team(2);
        compare_with_reference(*make_cpu_layer_ops(team, *kernel),
                               {attention_case<float>(rng, heads, 16)},
                               {attention_case<double>(same, heads, 16)}, Operands::kBf16);
      }
    }
  }
}

// Too deep for sums in one piece (kPackedDepth), or too wide a head for a strip.
TEST_CASE("products too large for one piece are turned and gated in bf16 as any") {
  const auto rounded_tensor = [](Rng& rng, const Shape& shape) {
    auto values = made(random_tensor<float>(rng, shape), Operands::kBf16);
    std::vector<bf16> out;
    for (const float value : values.values) out.push_back(to_bf16(value));
    return out;
  };
  struct Size {
    std::int64_t inputs, head_width;
  };
  for (const Size& size : {Size{4100, 8}, Size{40, 520}}) {
    CAPTURE(size.inputs);
    const HeadShape heads{
        .sequences = 1, .tokens = 12, .heads = 2, .kv_heads = 1, .head_width = size.head_width};
    const std::int64_t ffn = heads.packed_width() / 2;
    Rng rng(9);
    const auto in = rounded_tensor(rng, {heads.tokens, size.inputs});
    auto weight = made(random_tensor<float>(rng, {2 * ffn, size.inputs}), Operands::kBf16);
    for (float& value : weight.values) value /= size.inputs > 1000 ? 64 : 8;  // still bf16
    const auto cosines = random_tensor<float>(rng, {heads.tokens, size.head_width / 2});
    const TensorView<const bf16> left{in.data(), {heads.tokens, size.inputs}};
    // Turned values of all tokens, then gates and ups, then what is gated.
    const auto run = [&](LayerOps& ops) {
      REQUIRE(ops.reserve({.longest = heads}).ok());
      std::vector<bf16> qkv(static_cast<std::size_t>(heads.tokens * 2 * ffn)), gate_up(qkv.size());
      std::vector<bf16> gated(qkv.size() / 2);
      const Shape packed{heads.tokens, 2 * ffn};
      ops.linear_rope(Lane::kCompute, {.qkv = TensorView<bf16>{qkv.data(), packed},
                                       .in = left,
                                       .weight = weight.view(),
                                       .rotations = {cosines.view(), cosines.view()},
                                       .shape = heads});
      ops.linear_swiglu(Lane::kCompute,
                        {.gate_up = TensorView<bf16>{gate_up.data(), packed},
                         .gated = TensorView<bf16>{gated.data(), {heads.tokens, ffn}},
                         .in = left,
                         .weight = weight.view()});
      std::vector<double> all;
      for (const auto* part : {&qkv, &gate_up, &gated}) {
        for (const bf16 value : *part) all.push_back(to_float(value));
      }
      return all;
    };
    ThreadTeam team(2);
    ReferenceLayerOps<float> reference(DType::kBf16);
    const auto expected = run(reference);
    for (const GemmKernel* kernel : kernels_to_test()) {
      CAPTURE(kernel->name);
      CHECK(relative_error(run(*make_cpu_layer_ops(team, *kernel)), expected) < 0x1p-7);
    }
  }
}

// Three parts, of which the later two, rounded each by itself, would not move what is there: bf16
// has 256 and 258. Every second row is twice as large.
TEST_CASE("sums too deep for one piece are floats in bf16 as well, and rounded once") {
  const std::int64_t inputs = 3 * kPackedDepth, outputs = 1024;
  Owned<float> weight({outputs, inputs});
  for (std::int64_t i = 0; i < weight.shape.elements(); ++i) {
    const float part = i % inputs < kPackedDepth ? 256.0F : 0.75F;
    weight.values[static_cast<std::size_t>(i)] = part / kPackedDepth;
  }
  const auto wrong = [&](LayerOps& ops, std::int64_t tokens) {
    std::vector<bf16> in, out(static_cast<std::size_t>(tokens * outputs));
    for (std::int64_t token = 0; token < tokens; ++token) {
      in.insert(in.end(), static_cast<std::size_t>(inputs), to_bf16(token % 2 == 0 ? 1.0F : 2.0F));
    }
    ops.linear(Lane::kCompute, {.out = TensorView<bf16>{out.data(), {tokens, outputs}},
                                .in = TensorView<const bf16>{in.data(), {tokens, inputs}},
                                .weight = std::as_const(weight).view()});
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < tokens * outputs; ++i) {
      const float expected = i / outputs % 2 == 0 ? 258.0F : 516.0F;
      count += to_float(out[static_cast<std::size_t>(i)]) != expected ? 1 : 0;
    }
    return count;
  };
  ThreadTeam team(2);
  const auto ops = make_cpu_layer_ops(team, *kernels_to_test().back());
  REQUIRE(ops->reserve({.longest = {.tokens = 1, .head_width = 2}}).ok());
  CHECK(wrong(*ops, 5) == 0);
  CHECK(wrong(*ops, kDeepSums / outputs + 6) == 0);
}

// What packs nothing, for a few rows, against what packs.
TEST_CASE("the last tokens of a sequence alone give in bf16 what they give with all others") {
  const HeadShape heads{.sequences = 1, .tokens = 75, .heads = 4, .kv_heads = 2, .head_width = 24};
  Rng rng(3);
  const Shape in_shape{heads.tokens, 50}, packed{heads.tokens, heads.packed_width()};
  std::vector<bf16> in;
  for (const float value : random_tensor<float>(rng, in_shape).values) in.push_back(to_bf16(value));
  auto weight = made(random_tensor<float>(rng, {heads.packed_width(), 50}), Operands::kBf16);
  for (float& value : weight.values) value /= 8;  // still bf16; scores of about 1
  Owned<float> cosines({heads.tokens, 12}), sines(cosines.shape);
  for (std::size_t i = 0; i < cosines.values.size(); ++i) {
    cosines.values[i] = std::cos(static_cast<float>(i));
    sines.values[i] = std::sin(static_cast<float>(i));
  }
  ThreadTeam team(2);
  const std::int64_t width = heads.heads * heads.head_width;
  const std::size_t rows = static_cast<std::size_t>(heads.tokens);
  std::vector<bf16> qkv(rows * static_cast<std::size_t>(heads.packed_width()));
  struct Last {
    std::vector<double> out, log_sums;
  };
  const auto attended_from = [&](LayerOps& ops, std::int64_t first) {
    HeadShape turned = heads;
    turned.tokens -= first;
    const TensorView<const bf16> whole{in.data(), in_shape};
    const auto tail = [first](const auto& view) {
      return view.row_range(first, view.rows() - first);
    };
    ops.linear_rope(Lane::kCompute, {.qkv = tail(TensorView<bf16>{qkv.data(), packed}),
                                     .in = tail(whole),
                                     .weight = weight.view(),
                                     .rotations = {tail(std::as_const(cosines).view()),
                                                   tail(std::as_const(sines).view())},
                                     .shape = turned});
    std::vector<bf16> out(rows * static_cast<std::size_t>(width));
    Owned<float> log_sums({1, heads.heads, heads.tokens});
    ops.attention(Lane::kCompute, {.out = TensorView<bf16>{out.data(), {heads.tokens, width}},
                                   .log_sums = log_sums.view(),
                                   .qkv = TensorView<const bf16>{qkv.data(), packed},
                                   .shape = heads,
                                   .first = first});
    Last last;
    for (std::size_t i = (rows - 3) * static_cast<std::size_t>(width); i < out.size(); ++i) {
      last.out.push_back(to_float(out[i]));
    }
    for (std::int64_t head = 1; head <= heads.heads; ++head) {
      last.log_sums.push_back(log_sums.values[rows * static_cast<std::size_t>(head) - 1]);
    }
    return last;
  };
  for (const GemmKernel* kernel : kernels_to_test()) {
    CAPTURE(kernel->name);
    const auto ops = make_cpu_layer_ops(team, *kernel);
    REQUIRE(ops->reserve({.longest = heads}).ok());
    const Last all = attended_from(*ops, 0);
    for (const std::int64_t few : {3, 20}) {
      CAPTURE(few);
      const Last last = attended_from(*ops, heads.tokens - few);
      CHECK(relative_error(last.out, all.out) < 0x1p-7);
      CHECK(relative_error(last.log_sums, all.log_sums) < 0x1p-8);
    }
  }
}

TEST_CASE("zero clears a tensor and nothing past it") {
  std::vector<float> values(40, 3.0F);
  ThreadTeam team(2);
  make_cpu_layer_ops(team)->zero(Lane::kCompute, {values.data(), Shape{39}});
  for (std::size_t i = 0; i < 39; ++i) CHECK(values[i] == 0.0F);
  CHECK(values[39] == 3.0F);
}

TEST_CASE("a causal query never sees a later key") {
  const HeadShape shape{.sequences = 1, .tokens = 130, .heads = 2, .kv_heads = 1, .head_width = 8};
  ThreadTeam team(2);
  const auto ops = make_cpu_layer_ops(team);
  REQUIRE(ops->reserve({.longest = shape}).ok());
  Rng rng(5);
  auto qkv = random_tensor<float>(rng, {shape.tokens, shape.packed_width()});
  const auto attend = [&] {
    Owned<float> out({shape.tokens, 16}), log_sums({1, 2, shape.tokens});
    ops->attention(
        Lane::kCompute,
        {.out = out.view(), .log_sums = log_sums.view(), .qkv = qkv.view(), .shape = shape});
    return out.values;
  };
  const auto before = attend();
  const std::int64_t changed = 100;
  for (std::int64_t i = 0; i < shape.packed_width(); ++i) {
    qkv.values[static_cast<std::size_t>(changed * shape.packed_width() + i)] += 1.0F;
  }
  const auto after = attend();
  const auto row = before.begin() + changed * 16;
  CHECK(std::equal(before.begin(), row, after.begin()));
  CHECK(!std::equal(row, before.end(), after.begin() + changed * 16));
}

TEST_CASE("the vectorized exp stays within 3e-7 and keeps NaN and the ends in order") {
  double worst = 0;
  for (float x = -87.0F; x <= 87.0F; x += 0.0037F) {
    const double exact = std::exp(static_cast<double>(x));
    testing::note_worst(worst, std::abs(static_cast<double>(vector_exp(x)) - exact) / exact);
  }
  CHECK(worst < 3e-7);
  CHECK(vector_exp(0.0F) == 1.0F);
  CHECK(vector_exp(-1000.0F) > 0.0F);
  CHECK(vector_exp(-1000.0F) < 1e-37F);
  CHECK(std::isfinite(vector_exp(1000.0F)));
  CHECK(std::isnan(vector_exp(std::nanf(""))));
}

}  // namespace starling::model
