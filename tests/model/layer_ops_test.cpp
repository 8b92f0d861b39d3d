#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "base/bf16.h"
#include "model/cpu_exp.h"
#include "model/cpu_layer_ops.h"
#include "model/reference_layer_ops.h"
#include "tests/model/operator_cases.h"

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

enum class Operands { kAny, kBf16 };

template <class Real>
Owned<Real> made(Owned<Real> values, Operands operands) {
  if (operands == Operands::kAny) return values;
  for (Real& value : values.values) value = to_float(to_bf16(static_cast<float>(value)));
  return values;
}

template <class Real>
std::vector<OperatorCase<Real>> made(std::vector<OperatorCase<Real>> cases, Operands operands) {
  for (auto& one : cases) {
    for (auto& input : one.inputs) input = made(std::move(input), operands);
  }
  return cases;
}

// In bf16 attention rounds its weights, and its backward the gradients of the scores too, to 8
// significant bits: by up to 2^-9 of each, and the errors of a sum are independent.
double tolerance(const std::string& name, Operands operands) {
  return operands == Operands::kBf16 && name == "attention" ? 0x1p-8 : 1e-5;
}

// Every operation of `ops`, forward and backward, against the reference in double. With operands
// that need no rounding, so does arithmetic that rounds them.
void compare_with_reference(LayerOps& ops, std::uint64_t seed, Operands operands = Operands::kAny) {
  Rng rng(seed), same(seed), grads(seed + 1), same_grads(seed + 1);
  ReferenceLayerOps<double> reference;
  const auto cases = made(operator_cases<float>(rng, CaseSize::kLarge), operands);
  const auto expected_cases = made(operator_cases<double>(same, CaseSize::kLarge), operands);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(cases[i].name);
    const auto out = cases[i].forward(ops, cases[i].inputs);
    const auto expected = expected_cases[i].forward(reference, expected_cases[i].inputs);
    CHECK(relative_error(out.values, expected.values) < tolerance(cases[i].name, operands));
    const auto gradients = cases[i].backward(
        ops, cases[i].inputs, made(random_tensor<float>(grads, out.shape), operands));
    const auto expected_gradients =
        expected_cases[i].backward(reference, expected_cases[i].inputs,
                                   made(random_tensor<double>(same_grads, out.shape), operands));
    REQUIRE(gradients.size() == expected_gradients.size());
    for (std::size_t input = 0; input < gradients.size(); ++input) {
      CAPTURE(input);
      CHECK(relative_error(gradients[input].values, expected_gradients[input].values) <
            tolerance(cases[i].name, operands));
    }
  }
}

}  // namespace

TEST_CASE("every backward of the reference agrees with finite differences in double") {
  ReferenceLayerOps<double> ops;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    for (auto& op : operator_cases<double>(rng, CaseSize::kSmall)) {
      CAPTURE(op.name);
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

TEST_CASE("the CPU operations in bf16 agree with the reference where nothing is rounded") {
  if (!has_bf16()) {
    MESSAGE("skipped: this processor has no arithmetic for bf16");
    return;
  }
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    CAPTURE(seed);
    ThreadTeam team(static_cast<int>(1 + seed % 3));
    const auto ops = make_cpu_layer_ops(team, Compute::kBf16);
    compare_with_reference(*ops, seed, Operands::kBf16);
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
  ops->reserve(shape);
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
    worst = std::max(worst, std::abs(static_cast<double>(vector_exp(x)) - exact) / exact);
  }
  CHECK(worst < 3e-7);
  CHECK(vector_exp(0.0F) == 1.0F);
  CHECK(vector_exp(-1000.0F) > 0.0F);
  CHECK(vector_exp(-1000.0F) < 1e-37F);
  CHECK(std::isfinite(vector_exp(1000.0F)));
  CHECK(std::isnan(vector_exp(std::nanf(""))));
}

}  // namespace starling::model
