#include "cuda/column_major.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/cuda/host_products.h"
#include "tests/model/operator_cases.h"

namespace starling::cuda {

namespace {

float at(const ColumnMajor& matrix, std::int64_t row, std::int64_t column) {
  return static_cast<const float*>(matrix.data)[column * matrix.rows + row];
}

// The product as BLAS defines it.
void multiply(const ColumnMajorProduct& product) {
  const auto element = [](const ColumnMajor& of, std::int64_t row, std::int64_t column) {
    return of.transposed ? at(of, column, row) : at(of, row, column);
  };
  const std::int64_t depth = product.depth();
  CHECK(depth == (product.b.transposed ? product.b.columns : product.b.rows));
  CHECK(product.out.rows == (product.a.transposed ? product.a.columns : product.a.rows));
  CHECK(product.out.columns == (product.b.transposed ? product.b.rows : product.b.columns));
  auto* out = static_cast<float*>(const_cast<void*>(product.out.data));
  for (std::int64_t n = 0; n < product.out.columns; ++n) {
    for (std::int64_t m = 0; m < product.out.rows; ++m) {
      float sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        sum += element(product.a, m, k) * element(product.b, k, n);
      }
      out[n * product.out.rows + m] = sum + (product.adds ? at(product.addend, m, n) : 0.0F);
    }
  }
}

}  // namespace

TEST_CASE("every form of a product is the same in column-major matrices") {
  using model::Owned;
  const std::int64_t rows = 3, columns = 5, depth = 4;
  Rng rng(1);
  for (const bool left_transposed : {false, true}) {
    for (const bool right_transposed : {false, true}) {
      for (const bool adds : {false, true}) {
        const auto factor = [&](std::int64_t outer, bool transposed) {
          return model::random_tensor<float>(
              rng, transposed ? model::Shape{depth, outer} : model::Shape{outer, depth});
        };
        const Owned<float> left = factor(rows, left_transposed);
        const Owned<float> right = factor(columns, right_transposed);
        const auto addend = model::random_tensor<float>(rng, {rows, columns});
        Owned<float> out({rows, columns}), expected({rows, columns});
        Product product{out.view(),
                        {left.view(), left_transposed},
                        {right.view(), right_transposed},
                        adds ? addend.values.data() : nullptr};
        multiply(column_major(product));
        product.out = expected.view();
        HostProducts().multiply(Lane::kCompute, product);
        CHECK(model::relative_error(out.values, expected.values) < 1e-6);
      }
    }
  }
}

TEST_CASE("a product is named by its shape, as the library sees it, and its types") {
  const bf16 in[6]{}, weight[15]{};
  float out[10]{};
  const Product product{model::TensorView<float>{out, {2, 5}},
                        {model::TensorView<const bf16>{in, {2, 3}}},
                        {model::TensorView<const bf16>{weight, {5, 3}}}};
  CHECK(name_of(column_major(product)) == "a product of m 5, n 2, k 3, bf16 into f32");
}

}  // namespace starling::cuda
