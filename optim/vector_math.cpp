#include "optim/vector_math.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/assert.h"
#include "base/vector_clones.h"
#include "optim/vector_types.h"

namespace starling::optim {

namespace {

constexpr std::int32_t kMagnitude = 0x7FFFFFFF;
// What is streamed waits in the nearest cache, so many values at a time: processors of Intel let a
// load wait for a stream before it to an address with the same last twelve bits. Where a target
// lies 16 bytes further on in its page than what is read, value by value took ten times as long.
constexpr std::size_t kPiece = 256;

// Bits of the largest magnitudes so far.
using Largest = Ints8[2];

STARLING_INLINE void raise(Largest& largest, const float* sixteen) {
  for (std::size_t part = 0; part < 2; ++part) {
    Ints8 bits;
    load(bits, sixteen + 8 * part);
    bits &= kMagnitude;
    largest[part] = bits > largest[part] ? bits : largest[part];
  }
}

// Of all so far and of the `count` values that are left.
STARLING_INLINE float largest_of(const Largest& largest, const float* left, std::size_t count) {
  std::int32_t result = 0;
  for (std::size_t i = 0; i < count; ++i) {
    result = std::max(result, std::bit_cast<std::int32_t>(left[i]) & kMagnitude);
  }
  for (const Ints8& part : largest) {
    for (std::size_t j = 0; j < 8; ++j) result = std::max(result, part[j]);
  }
  return std::bit_cast<float>(result);
}

STARLING_VECTOR_CLONES
float largest_loop(const float* values, std::size_t count) {
  Largest largest = {};
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    prefetch(values + i);
    raise(largest, values + i);
  }
  return largest_of(largest, values + i, count - i);
}

// Writes `bytes`, at most a piece, past the caches.
STARLING_INLINE void stream_piece(void* to, const void* from, std::size_t bytes) {
  for (std::size_t byte = 0; byte < bytes; byte += kStreamBytes) {
    Shorts8 eight;
    load(eight, static_cast<const std::byte*>(from) + byte);
    stream(static_cast<std::byte*>(to) + byte, eight);
  }
}

// Streams `lines` of 64 bytes; measures `count` values, the same but for the ends.
STARLING_VECTOR_CLONES
float stream_measured(std::byte* to, const std::byte* from, std::size_t lines, const float* values,
                      std::size_t count) {
  Largest largest = {};
  std::array<std::byte, kPiece * sizeof(float)> piece;
  for (std::size_t first = 0; first < lines; first += piece.size() / 64) {
    const std::size_t now = std::min(lines - first, piece.size() / 64);
    for (std::size_t line = first; line < first + now; ++line) {
      prefetch(values + 16 * line);
      raise(largest, values + 16 * line);
      std::memcpy(piece.data() + 64 * (line - first), from + 64 * line, 64);
    }
    stream_piece(to + 64 * first, piece.data(), 64 * now);
  }
  return largest_of(largest, values + 16 * lines, count - 16 * lines);
}

STARLING_VECTOR_CLONES
void add_scaled_loop(float* __restrict target, float scale, const float* __restrict source,
                     std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) target[i] += scale * source[i];
}

STARLING_VECTOR_CLONES
void add_scaled_difference_loop(float* __restrict target, float scale, const float* left,
                                const float* right, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) target[i] += scale * (left[i] - right[i]);
}

// Zero is added so that no correction is a negative zero.
void shift_some(float* __restrict weights, float* __restrict correction, float share,
                const float* __restrict difference, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    correction[i] = 0.0f + share * difference[i];
    weights[i] += correction[i];
  }
}

// The same of `count` values, a multiple of kPiece, with `correction` aligned for streams.
STARLING_VECTOR_CLONES
void shift_loop(float* __restrict weights, float* __restrict correction, float share,
                const float* __restrict difference, std::size_t count) {
  std::array<float, kPiece> moved;
  for (std::size_t first = 0; first < count; first += kPiece) {
    for (std::size_t i = 0; i < kPiece; ++i) {
      moved[i] = 0.0f + share * difference[first + i];
      weights[first + i] += moved[i];
    }
    stream_piece(correction + first, moved.data(), sizeof(moved));
  }
}

}  // namespace

VectorStats measure(std::span<const float> values) {
  Measurement measurement;
  measurement.add(values);
  return measurement.stats();
}

VectorStats measure_sum(std::span<const float> left, float scale, std::span<const float> right) {
  Measurement measurement;
  measurement.add_sum(left, scale, right);
  return measurement.stats();
}

float largest_magnitude(std::span<const float> values) {
  return largest_loop(values.data(), values.size());
}

float copy_past_caches(std::span<std::byte> target, std::span<const float> source) {
  STARLING_ASSERT(target.size() == source.size_bytes());
  if (target.empty()) return 0.0f;
  const auto* const from = reinterpret_cast<const std::byte*>(source.data());
  std::byte* const to = target.data();
  const std::size_t head = std::min(-reinterpret_cast<std::uintptr_t>(to) % 64, target.size());
  const std::size_t lines = (target.size() - head) / 64;
  const std::size_t tail = head + 64 * lines;
  std::memcpy(to, from, head);
  std::memcpy(to + tail, from + tail, target.size() - tail);
  return stream_measured(to + head, from + head, lines, source.data(), source.size());
}

void fill_past_caches(std::span<float> target, float value) {
  const std::size_t to_alignment =
      -reinterpret_cast<std::uintptr_t>(target.data()) % kStreamBytes / sizeof(float);
  const std::size_t head = std::min(to_alignment, target.size());
  const std::size_t middle = (target.size() - head) / 4 * 4;
  const Floats4 four = {value, value, value, value};
  std::fill_n(target.begin(), head, value);
  for (std::size_t i = head; i < head + middle; i += 4) stream(target.data() + i, four);
  std::fill(target.begin() + static_cast<std::ptrdiff_t>(head + middle), target.end(), value);
  finish_streams();
}

void add_scaled(std::span<float> target, float scale, std::span<const float> source) {
  STARLING_ASSERT(target.size() == source.size());
  add_scaled_loop(target.data(), scale, source.data(), source.size());
}

void add_scaled_difference(std::span<float> target, float scale, std::span<const float> left,
                           std::span<const float> right) {
  STARLING_ASSERT(left.size() == target.size());
  STARLING_ASSERT(right.size() == target.size());
  add_scaled_difference_loop(target.data(), scale, left.data(), right.data(), target.size());
}

void shift(std::span<float> weights, std::span<float> correction, float share,
           std::span<const float> difference) {
  STARLING_ASSERT(correction.size() == weights.size());
  STARLING_ASSERT(difference.size() == weights.size());
  const std::size_t to_alignment =
      -reinterpret_cast<std::uintptr_t>(correction.data()) % kStreamBytes / sizeof(float);
  const std::size_t head = std::min(to_alignment, weights.size());
  const std::size_t middle = (weights.size() - head) / kPiece * kPiece;
  const auto part = [&](auto& loop, std::size_t first, std::size_t count) {
    loop(weights.data() + first, correction.data() + first, share, difference.data() + first,
         count);
  };
  part(shift_some, 0, head);
  part(shift_loop, head, middle);
  part(shift_some, head + middle, weights.size() - head - middle);
  finish_streams();
}

double root_mean(double sum_of_squares, std::size_t count) {
  return std::sqrt(sum_of_squares / static_cast<double>(count));
}

double rms(const VectorStats& stats, std::size_t count) {
  if (!stats.finite) return std::numeric_limits<double>::infinity();
  return count == 0 ? 0.0 : root_mean(stats.sum_of_squares, count);
}

}  // namespace starling::optim
