// What decides which instance of a kernel is launched: whether rows can be read 16 bytes at a time,
// and the type that is stored. Host code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "base/assert.h"
#include "base/bf16.h"
#include "model/tensor.h"

namespace starling::cuda {

inline constexpr int kPack = 8;  // elements of a thread's access where all rows are aligned

// Whether rows of so many columns at these places can be read in packs.
inline bool in_packs(std::int64_t columns, std::initializer_list<const void*> places) {
  return columns % kPack == 0 && std::all_of(places.begin(), places.end(), [](const void* place) {
           return reinterpret_cast<std::uintptr_t>(place) % 16 == 0;
         });
}

// Calls body with the count as a constant of the type.
template <class Body>
void with_count(bool packs, const Body& body) {
  if (packs) {
    body(std::integral_constant<int, kPack>());
  } else {
    body(std::integral_constant<int, 1>());
  }
}

// And with a value of the type that is stored.
template <class Body>
void with_type(model::DType dtype, const Body& body) {
  if (dtype == model::DType::kBf16) {
    body(bf16());
  } else {
    STARLING_ASSERT(dtype == model::DType::kF32);
    body(float());
  }
}

}  // namespace starling::cuda
