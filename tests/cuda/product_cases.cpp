#include "tests/cuda/product_cases.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "base/rng.h"

namespace starling::cuda {

namespace {

using model::DType;

// (rows, columns) as `dtype` stores them.
class Matrix {
 public:
  Matrix(DType dtype, std::int64_t rows, std::int64_t columns)
      : dtype_(dtype), shape_{rows, columns} {
    const auto count = static_cast<std::size_t>(rows * columns);
    rounded_.resize(dtype == DType::kBf16 ? count : 0);
    floats_.resize(dtype == DType::kBf16 ? 0 : count);
  }
  template <class Next>
  Matrix(DType dtype, std::int64_t rows, std::int64_t columns, const Next& next)
      : Matrix(dtype, rows, columns) {
    for (bf16& value : rounded_) value = to_bf16(next());
    for (float& value : floats_) value = next();
  }

  DType dtype() const { return dtype_; }
  std::int64_t rows() const { return shape_.dims[0]; }
  std::int64_t columns() const { return shape_.dims[1]; }
  double at(std::int64_t row, std::int64_t column) const {
    const auto index = static_cast<std::size_t>(row * columns() + column);
    return dtype_ == DType::kBf16 ? to_float(rounded_[index]) : floats_[index];
  }
  model::TypedTensor view() {
    if (dtype_ == DType::kBf16) return model::TensorView<bf16>{rounded_.data(), shape_};
    return floats();
  }
  model::Tensor floats() { return {floats_.data(), shape_}; }

 private:
  DType dtype_;
  model::Shape shape_;
  std::vector<bf16> rounded_;  // these or those are empty
  std::vector<float> floats_;
};

struct LayerTypes {
  DType in, in_grad, out, out_grad;
};
// A linear layer. `next` gives its operands, which bf16 must hold, so that none is rounded on the
// way to a product.
struct Layer {
  template <class Next>
  Layer(const LayerTypes& types, const LinearSizes& of, const Next& next)
      : in(types.in, of.rows, of.inputs, next),
        weight(DType::kF32, of.outputs, of.inputs, next),
        out_grad(types.out_grad, of.rows, of.outputs, next),
        out(types.out, of.rows, of.outputs),
        in_grad(types.in_grad, of.rows, of.inputs),
        weight_grad(DType::kF32, of.outputs, of.inputs) {}

  void run(model::LayerOps& ops) {
    REQUIRE(ops.reserve({}).ok());
    ops.linear(Lane::kCompute, {.out = out.view(), .in = in.view(), .weight = weight.floats()});
    ops.linear_backward(Lane::kCompute, {.in_grad = in_grad.view(),
                                         .weight_grad = weight_grad.floats(),
                                         .out_grad = out_grad.view(),
                                         .in = in.view(),
                                         .weight = weight.floats()});
  }

  Matrix in, weight, out_grad;
  Matrix out, in_grad, weight_grad;
};

bool is_everywhere(const Matrix& matrix, std::int64_t value) {
  for (std::int64_t row = 0; row < matrix.rows(); ++row) {
    for (std::int64_t column = 0; column < matrix.columns(); ++column) {
      if (matrix.at(row, column) != static_cast<double>(value)) return false;
    }
  }
  return true;
}

// Samples of `actual`, each the sum of summand(row, column, k) over the depth. Floats that are
// added up differ from it by less than 2^-16 of the magnitudes, in any order; a lost tile of the
// depth by far more.
template <class Summand>
void check_samples(const Matrix& actual, std::int64_t depth, const Summand& summand) {
  const double when_stored = actual.dtype() == DType::kBf16 ? 0x1p-8 : 0;
  Rng rng(11);
  const auto below = [&rng](std::int64_t count) {
    return static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(count)));
  };
  for (int sample = 0; sample < 200; ++sample) {
    const std::int64_t row = below(actual.rows()), column = below(actual.columns());
    CAPTURE(row);
    CAPTURE(column);
    double sum = 0, magnitudes = 0;
    for (std::int64_t k = 0; k < depth; ++k) {
      const double product = summand(row, column, k);
      sum += product;
      magnitudes += std::abs(product);
    }
    const double allowed = when_stored * std::abs(sum) + 0x1p-16 * magnitudes;
    CHECK(std::abs(actual.at(row, column) - sum) <= allowed);
  }
}

void check_random(model::LayerOps& ops, const LayerTypes& types, const LinearSizes& sizes) {
  Rng rng(9);
  Layer layer(types, sizes, [&rng] { return to_float(to_bf16(rng.normal())); });
  layer.run(ops);
  check_samples(layer.out, sizes.inputs, [&](auto row, auto column, auto k) {
    return layer.in.at(row, k) * layer.weight.at(column, k);
  });
  check_samples(layer.in_grad, sizes.outputs, [&](auto row, auto column, auto k) {
    return layer.out_grad.at(row, k) * layer.weight.at(k, column);
  });
  check_samples(layer.weight_grad, sizes.rows, [&](auto row, auto column, auto k) {
    return layer.out_grad.at(k, row) * layer.in.at(k, column);
  });
}

}  // namespace

void check_products_of_ones(model::LayerOps& ops, const LinearSizes& sizes) {
  CAPTURE(sizes.rows);
  CAPTURE(sizes.outputs);
  CAPTURE(sizes.inputs);
  // Results are floats, which hold every count.
  const DType between = ops.activations();
  Layer layer({.in = between, .in_grad = DType::kF32, .out = DType::kF32, .out_grad = between},
              sizes, [] { return 1.0F; });
  layer.run(ops);
  CHECK(is_everywhere(layer.out, sizes.inputs));
  CHECK(is_everywhere(layer.in_grad, sizes.outputs));
  CHECK(is_everywhere(layer.weight_grad, sizes.rows));
}

void check_head(model::LayerOps& ops, const LinearSizes& sizes) {
  const DType between = ops.activations();
  check_random(ops, {.in = between, .in_grad = between, .out = DType::kF32, .out_grad = between},
               sizes);
}

void check_gate_up(model::LayerOps& ops, const LinearSizes& sizes) {
  const DType between = ops.activations();
  check_random(ops, {.in = between, .in_grad = between, .out = between, .out_grad = between},
               sizes);
}

}  // namespace starling::cuda
