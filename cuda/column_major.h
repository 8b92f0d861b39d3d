// A Product as libraries of column-major matrices see it: memory that holds a row-major matrix
// holds its transpose, so that out^T = right * left^T is asked for, and what has to be transposed
// is turned round. Knows no library.
#pragma once

#include <string>

#include "cuda/products.h"

namespace starling::cuda {

// As stored, column-major: (rows, columns), columns `rows` apart.
struct ColumnMajor {
  const void* data;
  model::DType dtype;
  std::int64_t rows, columns;
  bool transposed;  // the transpose is multiplied
};

// out (m, n) = a (m, k) * b (k, n) + addend
struct ColumnMajorProduct {
  ColumnMajor a, b, addend, out;
  bool adds;

  std::int64_t depth() const { return a.transposed ? a.rows : a.columns; }
};

// "a product of m 32000, n 1024, k 1024, bf16 into f32"
inline std::string name_of(const ColumnMajorProduct& product) {
  const auto name = [](model::DType type) { return type == model::DType::kBf16 ? "bf16" : "f32"; };
  return "a product of m " + std::to_string(product.out.rows) + ", n " +
         std::to_string(product.out.columns) + ", k " + std::to_string(product.depth()) + ", " +
         name(product.a.dtype) + " into " + name(product.out.dtype);
}

inline ColumnMajor stored(const model::ConstTypedTensor& values, bool transposed) {
  return {values.data, values.dtype, values.columns(), values.rows(), transposed};
}

inline ColumnMajorProduct column_major(const Product& product) {
  STARLING_ASSERT(product.left.values.dtype == product.right.values.dtype);
  STARLING_ASSERT(product.left.depth() == product.right.depth());
  STARLING_ASSERT(product.left.outer() == product.out.rows());
  STARLING_ASSERT(product.right.outer() == product.out.columns());
  const bool adds = product.addend != nullptr;
  STARLING_ASSERT(!adds || product.out.dtype == model::DType::kF32);
  const ColumnMajor out = stored(product.out, false);
  ColumnMajor addend = out;
  if (adds) addend.data = product.addend;
  return {stored(product.right.values, !product.right.transposed),
          stored(product.left.values, product.left.transposed), addend, out, adds};
}

}  // namespace starling::cuda
