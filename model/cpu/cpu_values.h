// What the vectorized loops of this room read and write: numbers that may be stored as bf16, and
// rows that are taken in whole vectors. Inside the room only.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/bf16.h"
#include "base/vector_clones.h"
#include "model/tensor.h"

namespace starling::model {

// Rows of attention scores are taken in whole vectors, what is not seen too, so that loops have no
// remainder, which would cost as much as the rest.
inline constexpr std::int32_t kVector = 16;

constexpr std::int64_t whole_vectors(std::int64_t keys) {
  return (keys + kVector - 1) / kVector * kVector;
}

STARLING_INLINE float as_float(float value) { return value; }
STARLING_INLINE float as_float(bf16 value) { return to_float(value); }

template <class Number>
STARLING_INLINE Number rounded(float value) {
  if constexpr (std::is_same_v<Number, bf16>) {
    return to_bf16(value);
  } else {
    return value;
  }
}

// An activation is either.
STARLING_INLINE bool is_bf16(DType dtype) {
  STARLING_ASSERT(dtype == DType::kBf16 || dtype == DType::kF32);
  return dtype == DType::kBf16;
}

}  // namespace starling::model
