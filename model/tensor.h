// TensorView<T>: a typed view of a dense array on a device. Row-major, contiguous, never owns; it
// has no operator[], so that the host cannot read device memory by accident. "Columns" is the last
// dimension, "rows" all others together.
//
// TypedTensor: the same, of numbers whose type is known at run time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "base/assert.h"
#include "base/bf16.h"

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

enum class DType : std::uint8_t { kF32, kBf16, kF64 };

constexpr std::int64_t bytes_of_one(DType dtype) {
  return dtype == DType::kBf16 ? 2 : dtype == DType::kF32 ? 4 : 8;
}

template <class T>
constexpr DType dtype_of() {
  using Number = std::remove_const_t<T>;
  static_assert(std::is_same_v<Number, float> || std::is_same_v<Number, bf16> ||
                std::is_same_v<Number, double>);
  if constexpr (std::is_same_v<Number, float>) return DType::kF32;
  if constexpr (std::is_same_v<Number, bf16>) return DType::kBf16;
  return DType::kF64;
}

// Byte is std::byte or const std::byte.
template <class Byte>
struct TypedView {
  template <class T>
  using Number = std::conditional_t<std::is_const_v<Byte>, const T, T>;

  Byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  TypedView() = default;
  TypedView(Byte* at, DType type, const Shape& of) : data(at), dtype(type), shape(of) {}
  template <class T>
  TypedView(const TensorView<T>& view)  // NOLINT: implicit
      : data(reinterpret_cast<Byte*>(view.data)), dtype(dtype_of<T>()), shape(view.shape) {}

  std::int64_t elements() const { return shape.elements(); }
  std::int64_t columns() const { return as_bytes().columns(); }
  std::int64_t rows() const { return as_bytes().rows(); }
  TypedView row_range(std::int64_t first, std::int64_t count) const {
    const Shape part = as_bytes().row_range(first, count).shape;
    return {data + first * columns() * bytes_of_one(dtype), dtype, part};
  }
  // T must be what it holds.
  template <class T>
  TensorView<Number<T>> as() const {
    STARLING_ASSERT(dtype == dtype_of<T>());
    return {reinterpret_cast<Number<T>*>(data), shape};
  }
  operator TypedView<const Byte>() const { return {data, dtype, shape}; }  // NOLINT: implicit

 private:
  TensorView<Byte> as_bytes() const { return {data, shape}; }  // for the shape's sake
};

using TypedTensor = TypedView<std::byte>;
using ConstTypedTensor = TypedView<const std::byte>;

}  // namespace starling::model
