// Several values at once, for loops that compilers do not vectorize by themselves: the vector types
// of GCC and clang, whose operators work element by element, in 32 bytes at most. Where registers
// are shorter the compiler takes several; wider than registers it would take detours.
//
// Everything here is to be inlined: how vectors are passed to functions depends on the machine.
#pragma once

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/vector_clones.h"

namespace starling::optim {

using Floats4 = float __attribute__((vector_size(16)));
using Floats8 = float __attribute__((vector_size(32)));
using Doubles4 = double __attribute__((vector_size(32)));
using Shorts8 = std::uint16_t __attribute__((vector_size(16)));
using Words8 = std::uint32_t __attribute__((vector_size(32)));
using Ints8 = std::int32_t __attribute__((vector_size(32)));

// From anywhere: alignment is not asked for.
template <class Vector>
STARLING_INLINE void load(Vector& vector, const void* from) {
  std::memcpy(&vector, from, sizeof(vector));
}

template <class Vector>
STARLING_INLINE void store(void* to, const Vector& vector) {
  std::memcpy(to, &vector, sizeof(vector));
}

// A store past the caches, for what nobody reads soon or not on this processor. `to` is aligned to
// kStreamBytes, which is the size of the vector.
inline constexpr std::size_t kStreamBytes = 16;

template <class Vector>
STARLING_INLINE void stream(void* to, const Vector& vector) {
  static_assert(sizeof(vector) == kStreamBytes);
#ifdef __SSE2__
  __m128i bytes;
  std::memcpy(&bytes, &vector, sizeof(bytes));
  _mm_stream_si128(static_cast<__m128i*>(to), bytes);
#else
  std::memcpy(to, &vector, sizeof(vector));
#endif
}

// After such stores: other threads see them as they see ordinary ones.
inline void finish_streams() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

// How far ahead of their use values are fetched: processors that are slow to find a stream by
// themselves read memory up to a quarter faster, the others lose nothing.
inline constexpr std::size_t kPrefetchBytes = 1024;

STARLING_INLINE void prefetch(const void* from) {
  __builtin_prefetch(static_cast<const char*>(from) + kPrefetchBytes);
}

// What lies behind a piece, as much again: for loops that take turns at several vectors, and where
// a processor would have to find the stream anew at every turn.
template <class T>
void prefetch_next(std::span<const T> piece) {
  const auto* const behind = reinterpret_cast<const char*>(piece.data() + piece.size());
  for (std::size_t at = 0; at < piece.size_bytes(); at += 64) __builtin_prefetch(behind + at);
}

}  // namespace starling::optim
