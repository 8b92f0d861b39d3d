// Plain arithmetic on host vectors: what the mixer and the codec need besides their formulas.
//
// Deterministic: sums have a fixed order, whatever the machine. Thread: any; no state.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace starling::optim {

struct VectorStats {
  double sum_of_squares = 0.0;
  float max_abs = 0.0f;
  bool finite = true;  // false: some value is NaN or infinite, the other fields mean nothing
};

// The statistics of a vector that comes in pieces, while they are in the cache. Every piece but the
// last has a multiple of kSums values; then the cut changes no bit.
class Measurement {
 public:
  // Independent partial sums: the order is fixed here, so vectors of any width add alike.
  static constexpr std::size_t kSums = 16;
  struct Sums {
    std::array<double, kSums> squares{};
    std::array<std::int32_t, kSums> largest{};  // bits of magnitudes: ordered like these
  };

  void add(std::span<const float> values);
  // Of left + scale * right, without storing it. One size.
  void add_sum(std::span<const float> left, float scale, std::span<const float> right);
  VectorStats stats() const;

 private:
  Sums sums_;
};

// The loops of Measurement: of `count` values, a multiple of kSums; of left + scale * right.
struct SumLoops {
  using Sums = Measurement::Sums;
  void (*values)(Sums& sums, const float* values, std::size_t count);
  void (*sums)(Sums& sums, const float* left, float scale, const float* right, std::size_t count);
};
// All that this processor knows, fastest first. They come to the same bits.
std::vector<SumLoops> ways_to_sum();

// Calls work(first, count) for pieces of a vector, in order: small enough that several loops over a
// piece find it in the first cache, and fit for Measurement.
template <std::size_t kValues = 1024, class Work>
void for_each_piece(std::size_t size, const Work& work) {
  for (std::size_t first = 0; first < size; first += kValues) {
    work(first, std::min(kValues, size - first));
  }
}

VectorStats measure(std::span<const float> values);
// Of left + scale * right, without storing it. The spans have one size.
VectorStats measure_sum(std::span<const float> left, float scale, std::span<const float> right);

// The largest magnitude; not finite where some value is not.
float largest_magnitude(std::span<const float> values);

// Copies past the caches and returns the largest magnitude. No overlap; as large as each other, at
// any address. finish_streams() makes it visible.
float copy_past_caches(std::span<std::byte> target, std::span<const float> source);

// Every element = value, past the caches, and visible at once.
void fill_past_caches(std::span<float> target, float value);

// target += scale * source, element by element; one size, no overlap.
void add_scaled(std::span<float> target, float scale, std::span<const float> source);

// target += scale * (left - right), likewise; exactly nothing where left == right.
void add_scaled_difference(std::span<float> target, float scale, std::span<const float> left,
                           std::span<const float> right);

// correction = share * difference, past the caches; weights += correction. One size, no overlap.
void shift(std::span<float> weights, std::span<float> correction, float share,
           std::span<const float> difference);

// sqrt(sum_of_squares / count); count above zero.
double root_mean(double sum_of_squares, std::size_t count);

// The same; zero for count zero, infinite where the values were not finite.
double rms(const VectorStats& stats, std::size_t count);

}  // namespace starling::optim
