// Stored: what operations keep as an activation, in memory of its own, of the type they say.
#pragma once

#include <cstddef>
#include <vector>

#include "model/tensor.h"
#include "tests/model/operator_cases.h"

namespace starling::model {

class Stored {
 public:
  Stored(const Shape& shape, DType dtype)
      : bytes_(static_cast<std::size_t>(shape.elements() * bytes_of_one(dtype)), std::byte{0xff}),
        dtype_(dtype),
        shape_(shape) {}  // not a number
  template <class Real>
  Stored(const Owned<Real>& from, DType dtype) : Stored(from.shape, dtype) {
    for (std::size_t i = 0; i < from.values.size(); ++i) set(i, from.values[i]);
  }
  TypedTensor view() { return {bytes_.data(), dtype_, shape_}; }
  ConstTypedTensor view() const { return {bytes_.data(), dtype_, shape_}; }

  template <class Real>
  Owned<Real> loaded() const {
    Owned<Real> owned(shape_);
    for (std::size_t i = 0; i < owned.values.size(); ++i) owned.values[i] = get<Real>(i);
    return owned;
  }

 private:
  template <class Real>
  Real get(std::size_t i) const {
    if (dtype_ == DType::kBf16) return static_cast<Real>(to_float(view().as<bf16>().data[i]));
    if (dtype_ == DType::kF32) return static_cast<Real>(view().as<float>().data[i]);
    return static_cast<Real>(view().as<double>().data[i]);
  }
  template <class Real>
  void set(std::size_t i, Real value) {
    if (dtype_ == DType::kBf16) {
      view().as<bf16>().data[i] = to_bf16(static_cast<float>(value));
    } else if (dtype_ == DType::kF32) {
      view().as<float>().data[i] = static_cast<float>(value);
    } else {
      view().as<double>().data[i] = static_cast<double>(value);
    }
  }

  std::vector<std::byte> bytes_;
  DType dtype_;
  Shape shape_;
};

}  // namespace starling::model
