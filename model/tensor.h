// TensorView<T>: a typed view of a dense array on a device. Row-major, contiguous, never owns; it
// has no operator[], so that the host cannot read device memory by accident. "Columns" is the last
// dimension, "rows" all others together.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "base/assert.h"

namespace starling::model {

struct Shape {
  std::array<std::int64_t, 4> dims{};  // the first `rank` count, the others are zero
  std::uint8_t rank = 0;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> list) {
    STARLING_ASSERT(list.size() <= dims.size());
    for (const std::int64_t dim : list) dims[rank++] = dim;
  }
  std::int64_t elements() const {
    std::int64_t product = 1;
    for (std::size_t i = 0; i < rank; ++i) product *= dims[i];
    return product;
  }
  friend bool operator==(const Shape&, const Shape&) = default;
};

template <class T>
struct TensorView {
  T* data = nullptr;
  Shape shape;

  std::int64_t elements() const { return shape.elements(); }
  std::int64_t columns() const {
    STARLING_ASSERT(shape.rank > 0);
    return shape.dims[shape.rank - 1];
  }
  std::int64_t rows() const {
    std::int64_t product = 1;
    for (std::size_t i = 0; i + 1 < shape.rank; ++i) product *= shape.dims[i];
    return product;
  }
  TensorView row_range(std::int64_t first, std::int64_t count) const {
    STARLING_ASSERT(first >= 0);
    STARLING_ASSERT(count >= 0);
    STARLING_ASSERT(first + count <= rows());
    return {data + first * columns(), Shape{count, columns()}};
  }
  // Of a list (rank 1).
  TensorView range(std::int64_t first, std::int64_t count) const {
    STARLING_ASSERT(shape.rank == 1);
    STARLING_ASSERT(first >= 0);
    STARLING_ASSERT(count >= 0);
    STARLING_ASSERT(first + count <= elements());
    return {data + first, Shape{count}};
  }
  operator TensorView<const T>() const { return {data, shape}; }  // NOLINT: implicit
};

using Tensor = TensorView<float>;
using ConstTensor = TensorView<const float>;

}  // namespace starling::model
