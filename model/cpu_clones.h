// What the vectorized loops of this room are made of: functions compiled for several instruction
// sets and picked at start-up, so that one binary runs everywhere, and numbers that may be stored
// as bf16. Inside the room only.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/bf16.h"
#include "model/tensor.h"

// The resolvers of cloned functions run before a sanitizer is ready, and clang 14 does not clone
// functions in every place that GCC does. STARLING_ONE_CLONE: only what the compiler's options say,
// for tests of a clone that this machine does not choose. A cloned function cannot be a template:
// its body may be one, inlined by force.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(STARLING_ONE_CLONE)
#define STARLING_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define STARLING_CLONES
#endif
#define STARLING_INLINE [[gnu::always_inline]] inline

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
