#include "tests/cuda/host_products.h"

#include <vector>

namespace starling::cuda {

namespace {

using model::DType;

// (outer, depth)
std::vector<float> factor_values(const Factor& factor) {
  const std::int64_t outer = factor.outer(), depth = factor.depth();
  std::vector<float> values;
  for (std::int64_t i = 0; i < outer; ++i) {
    for (std::int64_t k = 0; k < depth; ++k) {
      const std::int64_t at = factor.transposed ? k * outer + i : i * depth + k;
      const bool is_bf16 = factor.values.dtype == DType::kBf16;
      values.push_back(is_bf16 ? to_float(factor.values.as<bf16>().data[at])
                               : factor.values.as<float>().data[at]);
    }
  }
  return values;
}

}  // namespace

void HostProducts::multiply(Lane /*lane*/, const Product& product) {
  const std::vector<float> left = factor_values(product.left), right = factor_values(product.right);
  const auto depth = static_cast<std::size_t>(product.left.depth());
  const auto columns = static_cast<std::size_t>(product.out.columns());
  STARLING_ASSERT(product.left.values.dtype == product.right.values.dtype);
  STARLING_ASSERT(product.right.depth() == product.left.depth());
  STARLING_ASSERT(product.left.outer() == product.out.rows());
  STARLING_ASSERT(product.right.outer() == product.out.columns());
  for (std::size_t at = 0; at < static_cast<std::size_t>(product.out.elements()); ++at) {
    const float* row = left.data() + at / columns * depth;
    const float* column = right.data() + at % columns * depth;
    float sum = 0;
    for (std::size_t k = 0; k < depth; ++k) sum += row[k] * column[k];
    if (product.addend != nullptr) sum += product.addend[at];
    if (product.out.dtype == DType::kBf16) {
      product.out.as<bf16>().data[at] = to_bf16(sum);
    } else {
      product.out.as<float>().data[at] = sum;
    }
  }
}

}  // namespace starling::cuda
