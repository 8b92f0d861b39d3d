// OperatorCase: one operation of LayerOps with random operands, seen as a function from inputs to
// one output and, backward, from the gradient of the output to those of the inputs. Operations that
// have one backward together, or that undo each other's layout, are one case. The same cases judge
// the reference (by finite differences, in double) and every execution (by the reference).
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "model/layer_ops.h"

namespace starling::model {

template <class Real>
struct Owned {
  std::vector<Real> values;
  Shape shape;

  Owned() = default;
  explicit Owned(const Shape& of, Real value = 0)
      : values(static_cast<std::size_t>(of.elements()), value), shape(of) {}
  TensorView<Real> view() { return {values.data(), shape}; }
  TensorView<const Real> view() const { return {values.data(), shape}; }
};

template <class Real>
struct OperatorCase {
  using Values = std::vector<Owned<Real>>;

  std::string name;
  Values inputs;
  std::function<Owned<Real>(LayerOpsOf<Real>&, const Values&)> forward;
  // None: another case has it.
  std::function<Values(LayerOpsOf<Real>&, const Values&, const Owned<Real>& out_grad)> backward;
};

// Small: a few values, for finite differences. Large: past every block and vector width.
enum class CaseSize { kSmall, kLarge };

// The same generator state gives the same operands in float and in double.
template <class Real>
std::vector<OperatorCase<Real>> operator_cases(Rng& rng, CaseSize size);

// Of (tokens, width).
template <class Real>
OperatorCase<Real> rms_norm_case(Rng& rng, const Shape& shape);
// Of (tokens, outputs), after a product with `inputs` inputs.
template <class Real>
OperatorCase<Real> linear_residual_norm_case(Rng& rng, const Shape& out_shape, std::int64_t inputs);

// Attention of these heads, after a product with `width` inputs.
template <class Real>
OperatorCase<Real> attention_case(Rng& rng, const HeadShape& heads, std::int64_t width);

template <class Real>
Owned<Real> random_tensor(Rng& rng, const Shape& shape) {
  Owned<Real> tensor(shape);
  for (Real& value : tensor.values) value = static_cast<Real>(rng.normal());
  return tensor;
}

// |actual - expected| / |expected|, in the Euclidean norm.
template <class Actual, class Expected>
double relative_error(const std::vector<Actual>& actual, const std::vector<Expected>& expected) {
  STARLING_ASSERT(actual.size() == expected.size());
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = static_cast<double>(actual[i]) - static_cast<double>(expected[i]);
    error += difference * difference;
    norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  // Where nothing is expected, the error itself.
  return norm == 0 ? std::sqrt(error) : std::sqrt(error / norm);
}

}  // namespace starling::model
