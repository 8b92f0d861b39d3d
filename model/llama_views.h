// How llama.cpp and its companions look at arenas: parameters by range, activations by rows.
// Inside the room only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/device.h"
#include "model/param_layout.h"
#include "model/tensor.h"

namespace starling::model {

inline constexpr Lane kLane = Lane::kCompute;

template <class T>
TensorView<T> tensor_at(DeviceSpan<T> arena, const Range& range, const Shape& shape) {
  STARLING_ASSERT(static_cast<std::size_t>(shape.elements()) == range.count);
  return {arena.subspan(range.first, range.count).data, shape};
}

template <class T>
DeviceSpan<std::byte> bytes_of(const TensorView<T>& view) {
  return {reinterpret_cast<std::byte*>(view.data),
          static_cast<std::size_t>(view.elements()) * sizeof(T)};
}

}  // namespace starling::model
