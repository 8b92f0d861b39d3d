#include "tests/model/layer_ops_parity.h"

#include <doctest/doctest.h>

#include <utility>

#include "base/bf16.h"
#include "model/reference_layer_ops.h"

namespace starling::model {

namespace {

template <class Real>
std::vector<OperatorCase<Real>> made(std::vector<OperatorCase<Real>> cases, Operands operands) {
  for (auto& one : cases) {
    for (auto& input : one.inputs) input = made(std::move(input), operands);
  }
  return cases;
}

}  // namespace

double tolerance(const std::string& name, Operands operands) {
  if (operands == Operands::kAny) return 1e-5;
  return name == "attention" ? 0x1p-7 : 0x1p-10;
}

double tolerance_rounded_twice(const std::string& name, Operands operands) {
  const bool is_twice = name == "linear_rope" || name == "swiglu" || name == "linear_residual_norm";
  if (operands == Operands::kBf16 && is_twice) return 0x1p-8;
  return tolerance(name, operands);
}

double tolerance_on_a_gpu(const std::string& name, Operands operands) {
  const bool tips = name == "attention" || name == "linear_rope" || name == "swiglu";
  const double allowed = tolerance_rounded_twice(name, operands);
  return operands == Operands::kBf16 && tips ? 1.25 * allowed : allowed;
}

void compare_with_reference(LayerOps& ops, std::vector<OperatorCase<float>> cases,
                            std::vector<OperatorCase<double>> expected_cases, Operands operands,
                            const Tolerance& allowed) {
  REQUIRE(ops.reserve({}).ok());
  Rng grads(1), same_grads(1);
  ReferenceLayerOps<double> reference(operands == Operands::kAny ? DType::kF64 : DType::kBf16);
  cases = made(std::move(cases), operands);
  expected_cases = made(std::move(expected_cases), operands);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(cases[i].name);
    const auto out = cases[i].forward(ops, cases[i].inputs);
    const auto expected = expected_cases[i].forward(reference, expected_cases[i].inputs);
    CHECK(relative_error(out.values, expected.values) < allowed(cases[i].name, operands));
    if (!cases[i].backward) continue;
    const auto gradients = cases[i].backward(
        ops, cases[i].inputs, made(random_tensor<float>(grads, out.shape), operands));
    const auto expected_gradients =
        expected_cases[i].backward(reference, expected_cases[i].inputs,
                                   made(random_tensor<double>(same_grads, out.shape), operands));
    REQUIRE(gradients.size() == expected_gradients.size());
    for (std::size_t input = 0; input < gradients.size(); ++input) {
      CAPTURE(input);
      CHECK(relative_error(gradients[input].values, expected_gradients[input].values) <
            allowed(cases[i].name, operands));
    }
  }
}

void compare_with_reference(LayerOps& ops, std::uint64_t seed, Operands operands,
                            const Tolerance& allowed) {
  Rng rng(seed), same(seed);
  compare_with_reference(ops, operator_cases<float>(rng, CaseSize::kLarge),
                         operator_cases<double>(same, CaseSize::kLarge), operands, allowed);
}

}  // namespace starling::model
