// Plain arithmetic on host vectors: what the mixer and the codec need besides their formulas.
//
// Deterministic: sums have a fixed order, whatever the machine. Thread: any; no state.
#pragma once

#include <span>

namespace starling::optim {

struct VectorStats {
  double sum_of_squares = 0.0;
  float max_abs = 0.0f;
  bool finite = true;  // false: some value is NaN or infinite, the other fields mean nothing
};

VectorStats measure(std::span<const float> values);
// Of left - right, without storing it. The spans have one size.
VectorStats measure_difference(std::span<const float> left, std::span<const float> right);

// Of left + scale * right, likewise.
VectorStats measure_sum(std::span<const float> left, float scale, std::span<const float> right);

// target += scale * source, element by element; one size, no overlap.
void add_scaled(std::span<float> target, float scale, std::span<const float> source);

// sqrt(sum_of_squares / count); zero for count zero, infinite where the values were not finite.
double rms(const VectorStats& stats, std::size_t count);

}  // namespace starling::optim
