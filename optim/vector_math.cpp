#include "optim/vector_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/assert.h"
#include "optim/vector_clones.h"
#include "optim/vector_types.h"

namespace starling::optim {

namespace {

constexpr std::int32_t kMagnitude = 0x7FFFFFFF;
constexpr std::int32_t kInfinity = 0x7F800000;

constexpr std::size_t kSums = Measurement::kSums;

// What a loop keeps of a Measurement while it runs.
struct Partial {
  Doubles4 squares[kSums / 4];
  Ints8 largest[kSums / 8];
};

STARLING_INLINE void accumulate(Partial& partial, const float* sixteen) {
  for (std::size_t part = 0; part < kSums / 4; ++part) {
    const float* const four = sixteen + 4 * part;
    const Doubles4 wide = {four[0], four[1], four[2], four[3]};
    partial.squares[part] += wide * wide;
  }
  for (std::size_t part = 0; part < kSums / 8; ++part) {
    Ints8 bits;
    load(bits, sixteen + 8 * part);
    bits &= kMagnitude;
    partial.largest[part] = bits > partial.largest[part] ? bits : partial.largest[part];
  }
}

STARLING_VECTOR_CLONES
void accumulate_values(Measurement::Sums& sums, const float* values, std::size_t count) {
  Partial partial;
  load(partial, &sums);
  std::size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    prefetch(values + i);
    accumulate(partial, values + i);
  }
  if (i < count) {
    float sixteen[kSums] = {};
    std::memcpy(sixteen, values + i, (count - i) * sizeof(float));
    accumulate(partial, sixteen);
  }
  store(&sums, partial);
}

STARLING_VECTOR_CLONES
void accumulate_sum(Measurement::Sums& sums, const float* left, float scale, const float* right,
                    std::size_t count) {
  Partial partial;
  load(partial, &sums);
  float sixteen[kSums] = {};
  std::size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    prefetch(left + i);
    prefetch(right + i);
    for (std::size_t part = 0; part < kSums; part += 8) {
      Floats8 eight;
      Floats8 added;
      load(eight, left + i + part);
      load(added, right + i + part);
      store(sixteen + part, eight + scale * added);
    }
    accumulate(partial, sixteen);
  }
  if (i < count) {
    std::fill(sixteen, sixteen + kSums, 0.0f);
    for (std::size_t j = 0; i + j < count; ++j) sixteen[j] = left[i + j] + scale * right[i + j];
    accumulate(partial, sixteen);
  }
  store(&sums, partial);
}

STARLING_VECTOR_CLONES
void add_scaled_loop(float* __restrict target, float scale, const float* __restrict source,
                     std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) target[i] += scale * source[i];
}

}  // namespace

void Measurement::add(std::span<const float> values) {
  accumulate_values(sums_, values.data(), values.size());
}

void Measurement::add_sum(std::span<const float> left, float scale, std::span<const float> right) {
  STARLING_ASSERT(left.size() == right.size());
  accumulate_sum(sums_, left.data(), scale, right.data(), left.size());
}

VectorStats Measurement::stats() const {
  VectorStats stats;
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < kSums; ++i) {
    stats.sum_of_squares += sums_.squares[i];
    largest = std::max(largest, sums_.largest[i]);
  }
  stats.max_abs = std::bit_cast<float>(largest);
  stats.finite = largest < kInfinity;
  return stats;
}

VectorStats measure(std::span<const float> values) {
  Measurement measurement;
  measurement.add(values);
  return measurement.stats();
}

VectorStats measure_difference(std::span<const float> left, std::span<const float> right) {
  return measure_sum(left, -1.0f, right);
}

VectorStats measure_sum(std::span<const float> left, float scale, std::span<const float> right) {
  Measurement measurement;
  measurement.add_sum(left, scale, right);
  return measurement.stats();
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
