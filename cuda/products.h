// Products: matrix products of row-major tensors, the one thing that CUDA's layer operations leave
// to a library: cuBLASLt on a GPU (lt_products.h), plain loops in tests on the host.
//
// Operands are floats, or both bf16; sums are floats. Work is enqueued; nothing fails.
#pragma once

#include <cstdint>

#include "base/device.h"
#include "model/tensor.h"

namespace starling::cuda {

// Of sums over the depth of left(row, k) * right(column, k).
struct Factor {
  model::ConstTypedTensor values;  // (rows or columns, depth)
  bool transposed = false;         // stored as (depth, rows or columns)

  std::int64_t depth() const { return transposed ? values.rows() : values.columns(); }
  std::int64_t outer() const { return transposed ? values.columns() : values.rows(); }
};

// out = left * right^T + addend
struct Product {
  model::TypedTensor out;  // (rows, columns)
  Factor left, right;
  const float* addend = nullptr;  // of the shape of out, which then is of floats; may be out's
};

class Products {
 public:
  Products() = default;
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  virtual ~Products() = default;

  virtual std::size_t workspace_bytes() const { return 0; }  // of the device's memory
  // As LayerOps::rehearses() and rehearse().
  virtual bool rehearses() const { return false; }
  virtual void rehearse(bool /*on*/) {}
  virtual void multiply(Lane lane, const Product& product) = 0;
};

}  // namespace starling::cuda
