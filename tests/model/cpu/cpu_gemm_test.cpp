#include "model/cpu/cpu_gemm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "tests/support/worst.h"

namespace starling::model {

namespace {

struct Sizes {
  std::int64_t rows, columns, inner;
};
// Nothing to share; two parts, seven, and more than are kept at once; sums that are too many; rows
// that lie pages apart, with too many sums for some teams, and in tiles alone.
constexpr Sizes kSizes[] = {{96, 130, 500},    {96, 130, 1024},   {33, 70, 3500},
                            {40, 24, 20000},   {96, 1, 1500},     {400, 400, 1200},
                            {384, 1024, 1100}, {1024, 300, 1100}, {2048, 384, 64}};

std::vector<float> uniform(Rng& rng, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(2.0 * rng.unit() - 1.0);
  return values;
}

// before + left^T right, where the rows of `before` are three longer; row by row of both, as they
// lie in memory.
std::vector<double> sums_over_rows(const std::vector<float>& left, const std::vector<float>& right,
                                   const std::vector<float>& before, const Sizes& sizes) {
  std::vector<double> sums(before.begin(), before.end());
  for (std::int64_t k = 0; k < sizes.inner; ++k) {
    const float* const of_left = left.data() + k * sizes.rows;
    const float* const of_right = right.data() + k * sizes.columns;
    for (std::int64_t row = 0; row < sizes.rows; ++row) {
      double* const to = sums.data() + row * (sizes.columns + 3);
      const double factor = of_left[row];
      for (std::int64_t column = 0; column < sizes.columns; ++column) {
        to[column] += factor * of_right[column];
      }
    }
  }
  return sums;
}

}  // namespace

TEST_CASE("a weight's gradient is the same sum whoever makes which part of it") {
  for (const Sizes& sizes : kSizes) {
    CAPTURE(sizes.rows);
    CAPTURE(sizes.inner);
    Rng rng(7);
    const auto left = uniform(rng, sizes.inner * sizes.rows);
    const auto right = uniform(rng, sizes.inner * sizes.columns);
    const std::int64_t stride = sizes.columns + 3;
    const auto before = uniform(rng, sizes.rows * stride);
    for (const bool adds : {true, false}) {
      // Where sums are set, whatever is there does not count.
      std::vector<float> start = before, zeroed = before;
      for (std::int64_t at = 0; at < sizes.rows * stride && !adds; ++at) {
        if (at % stride >= sizes.columns) continue;
        start[static_cast<std::size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
        zeroed[static_cast<std::size_t>(at)] = 0;
      }
      const std::vector<double> expected = sums_over_rows(left, right, zeroed, sizes);
      for (const int threads : {1, 2, 3}) {
        CAPTURE(adds);
        CAPTURE(threads);
        ThreadTeam team(threads);
        std::vector<float> sums(depth_sums(threads));
        std::vector<float> out = start;
        const Gemm product{.out = out.data(),
                           .out_stride = stride,
                           .left = {left.data(), sizes.rows, true},
                           .right = {right.data(), sizes.columns, false},
                           .rows = sizes.rows,
                           .columns = sizes.columns,
                           .inner = sizes.inner,
                           .keep = adds ? 1.0F : 0.0F};
        gemm_by_depth(team, product, sums);
        double worst = 0;
        for (std::size_t at = 0; at < out.size(); ++at) {
          testing::note_worst(worst, std::abs(out[at] - expected[at]));
        }
        CHECK(worst < 2e-5 * std::sqrt(static_cast<double>(sizes.inner)));
        const std::vector<float> first = out;
        out = start;
        gemm_by_depth(team, product, sums);
        CHECK(out == first);
      }
    }
  }
}

}  // namespace starling::model
