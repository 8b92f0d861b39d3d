#include "optim/vector_math.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/assert.h"
#include "optim/vector_clones.h"

namespace starling::optim {

namespace {

// Independent partial sums: the order is fixed by the source, so vectors of any width add alike.
constexpr std::size_t kSums = 16;
constexpr std::uint32_t kMagnitude = 0x7FFFFFFFU;
constexpr std::uint32_t kInfinity = 0x7F800000U;

struct Partial {
  std::array<double, kSums> squares{};
  std::array<std::uint32_t, kSums> largest{};  // magnitude bits: ordered like the magnitudes
};

inline void accumulate(Partial& partial, std::size_t lane, float value) {
  const double wide = value;
  partial.squares[lane] += wide * wide;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) & kMagnitude;
  partial.largest[lane] = std::max(partial.largest[lane], bits);
}

VectorStats fold(const Partial& partial) {
  VectorStats stats;
  std::uint32_t largest = 0;
  for (std::size_t lane = 0; lane < kSums; ++lane) {
    stats.sum_of_squares += partial.squares[lane];
    largest = std::max(largest, partial.largest[lane]);
  }
  stats.max_abs = std::bit_cast<float>(largest);
  stats.finite = largest < kInfinity;
  return stats;
}

STARLING_VECTOR_CLONES
void accumulate_all(Partial& result, const float* values, std::size_t count) {
  Partial partial = result;
  std::size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (std::size_t lane = 0; lane < kSums; ++lane) accumulate(partial, lane, values[i + lane]);
  }
  for (; i < count; ++i) accumulate(partial, i % kSums, values[i]);
  result = partial;
}

STARLING_VECTOR_CLONES
void accumulate_sum(Partial& result, const float* left, float scale, const float* right,
                    std::size_t count) {
  Partial partial = result;
  std::size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (std::size_t lane = 0; lane < kSums; ++lane) {
      accumulate(partial, lane, left[i + lane] + scale * right[i + lane]);
    }
  }
  for (; i < count; ++i) accumulate(partial, i % kSums, left[i] + scale * right[i]);
  result = partial;
}

STARLING_VECTOR_CLONES
void add_scaled_loop(float* __restrict target, float scale, const float* __restrict source,
                     std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) target[i] += scale * source[i];
}

}  // namespace

VectorStats measure(std::span<const float> values) {
  Partial partial;
  accumulate_all(partial, values.data(), values.size());
  return fold(partial);
}

VectorStats measure_difference(std::span<const float> left, std::span<const float> right) {
  return measure_sum(left, -1.0f, right);
}

VectorStats measure_sum(std::span<const float> left, float scale, std::span<const float> right) {
  STARLING_ASSERT(left.size() == right.size());
  Partial partial;
  accumulate_sum(partial, left.data(), scale, right.data(), left.size());
  return fold(partial);
}

void add_scaled(std::span<float> target, float scale, std::span<const float> source) {
  STARLING_ASSERT(target.size() == source.size());
  add_scaled_loop(target.data(), scale, source.data(), source.size());
}

double rms(const VectorStats& stats, std::size_t count) {
  if (!stats.finite) return std::numeric_limits<double>::infinity();
  return count == 0 ? 0.0 : std::sqrt(stats.sum_of_squares / static_cast<double>(count));
}

}  // namespace starling::optim
