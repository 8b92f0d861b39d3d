// Measurement: most of what the codec and the outer step compute. The conversion to double is what
// takes time: compilers do not find the one to eight of them by themselves, so they are told where
// that helps. The sums are the same everywhere.
#include <bit>
#include <cstring>

#include "base/assert.h"
#include "base/vector_clones.h"
#include "optim/vector_math.h"
#include "optim/vector_types.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace starling::optim {

namespace {

constexpr std::int32_t kMagnitude = 0x7FFFFFFF;
constexpr std::int32_t kInfinity = 0x7F800000;
constexpr std::size_t kSums = Measurement::kSums;

using Sums = Measurement::Sums;

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

// Of `count` values, a multiple of kSums.
STARLING_VECTOR_CLONES
void add_values(Sums& sums, const float* values, std::size_t count) {
  Partial partial;
  load(partial, &sums);
  for (std::size_t i = 0; i < count; i += kSums) {
    prefetch(values + i);
    accumulate(partial, values + i);
  }
  store(&sums, partial);
}

// Of left + scale * right, likewise.
STARLING_VECTOR_CLONES
void add_sums(Sums& sums, const float* left, float scale, const float* right, std::size_t count) {
  Partial partial;
  load(partial, &sums);
  float sixteen[kSums];
  for (std::size_t i = 0; i < count; i += kSums) {
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
  store(&sums, partial);
}

#ifdef __x86_64__

struct WidePartial {
  __m512d squares[2];
  __m512i largest;
};

__attribute__((target("avx512f"))) inline void load_wide(WidePartial& partial, const Sums& sums) {
  partial.squares[0] = _mm512_loadu_pd(sums.squares.data());
  partial.squares[1] = _mm512_loadu_pd(sums.squares.data() + 8);
  partial.largest = _mm512_loadu_si512(sums.largest.data());
}

__attribute__((target("avx512f"))) inline void store_wide(Sums& sums, const WidePartial& partial) {
  _mm512_storeu_pd(sums.squares.data(), partial.squares[0]);
  _mm512_storeu_pd(sums.squares.data() + 8, partial.squares[1]);
  _mm512_storeu_si512(sums.largest.data(), partial.largest);
}

__attribute__((target("avx512f"))) inline void accumulate_wide(WidePartial& partial, __m256 low,
                                                               __m256 high, __m512i bits) {
  const __m512d first = _mm512_cvtps_pd(low);
  const __m512d second = _mm512_cvtps_pd(high);
  partial.squares[0] = _mm512_add_pd(partial.squares[0], _mm512_mul_pd(first, first));
  partial.squares[1] = _mm512_add_pd(partial.squares[1], _mm512_mul_pd(second, second));
  const __m512i magnitudes = _mm512_and_si512(bits, _mm512_set1_epi32(kMagnitude));
  partial.largest = _mm512_max_epi32(partial.largest, magnitudes);
}

__attribute__((target("avx512f"))) void add_values_wide(Sums& sums, const float* values,
                                                        std::size_t count) {
  WidePartial partial;
  load_wide(partial, sums);
  for (std::size_t i = 0; i < count; i += kSums) {
    prefetch(values + i);
    accumulate_wide(partial, _mm256_loadu_ps(values + i), _mm256_loadu_ps(values + i + 8),
                    _mm512_loadu_si512(values + i));
  }
  store_wide(sums, partial);
}

__attribute__((target("avx512f"))) void add_sums_wide(Sums& sums, const float* left, float scale,
                                                      const float* right, std::size_t count) {
  WidePartial partial;
  load_wide(partial, sums);
  const __m512 factor = _mm512_set1_ps(scale);
  for (std::size_t i = 0; i < count; i += kSums) {
    prefetch(left + i);
    prefetch(right + i);
    const __m512 sum =
        _mm512_add_ps(_mm512_loadu_ps(left + i), _mm512_mul_ps(factor, _mm512_loadu_ps(right + i)));
    const __m512d halves = _mm512_castps_pd(sum);
    accumulate_wide(partial, _mm512_castps512_ps256(sum),
                    _mm256_castpd_ps(_mm512_extractf64x4_pd(halves, 1)), _mm512_castps_si512(sum));
  }
  store_wide(sums, partial);
}

#endif

const SumLoops& fastest() {
  static const SumLoops loops = ways_to_sum().front();
  return loops;
}

}  // namespace

std::vector<SumLoops> ways_to_sum() {
  std::vector<SumLoops> ways;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) ways.push_back({add_values_wide, add_sums_wide});
#endif
  ways.push_back({add_values, add_sums});
  return ways;
}

void Measurement::add(std::span<const float> values) {
  const std::size_t whole = values.size() / kSums * kSums;
  fastest().values(sums_, values.data(), whole);
  if (whole == values.size()) return;
  float sixteen[kSums] = {};
  std::memcpy(sixteen, values.data() + whole, (values.size() - whole) * sizeof(float));
  fastest().values(sums_, sixteen, kSums);
}

void Measurement::add_sum(std::span<const float> left, float scale, std::span<const float> right) {
  STARLING_ASSERT(left.size() == right.size());
  const std::size_t whole = left.size() / kSums * kSums;
  fastest().sums(sums_, left.data(), scale, right.data(), whole);
  if (whole == left.size()) return;
  float sixteen[2][kSums] = {};
  const std::size_t rest = (left.size() - whole) * sizeof(float);
  std::memcpy(sixteen[0], left.data() + whole, rest);
  std::memcpy(sixteen[1], right.data() + whole, rest);
  fastest().sums(sums_, sixteen[0], scale, sixteen[1], kSums);
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

}  // namespace starling::optim
