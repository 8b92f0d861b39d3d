#include "optim/vector_math.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "base/rng.h"
#include "tests/optim/codec_support.h"

namespace starling::optim {

TEST_CASE("sums of squares and largest magnitudes are right for every length") {
  Rng rng(111);
  for (const std::size_t count : {0U, 1U, 15U, 16U, 17U, 33U, 1000U}) {
    CAPTURE(count);
    const auto left = normal_values(rng, count, 2.0f);
    const auto right = normal_values(rng, count, 2.0f);
    double squares = 0.0;
    float largest = 0.0f;
    std::vector<float> difference(count);
    for (std::size_t i = 0; i < count; ++i) {
      difference[i] = left[i] - right[i];
      squares += double{left[i]} * left[i];
      largest = std::max(largest, std::abs(left[i]));
    }
    const VectorStats stats = measure(left);
    CHECK(stats.finite);
    CHECK(stats.sum_of_squares == doctest::Approx(squares).epsilon(1e-12));
    CHECK(stats.max_abs == largest);
    const double mean = count == 0 ? 0.0 : squares / static_cast<double>(count);
    CHECK(rms(stats, count) == doctest::Approx(std::sqrt(mean)));
    CHECK(measure_sum(left, -1.0f, right).sum_of_squares == measure(difference).sum_of_squares);
  }
}

// The order that is promised: sixteen sums, value i to sum i mod 16, in double.
double sixteen_sums(const std::vector<float>& values) {
  std::array<double, 16> sums{};
  for (std::size_t i = 0; i < values.size(); ++i) sums[i % 16] += double{values[i]} * values[i];
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

TEST_CASE("sums have the promised order wherever the values lie and however they are cut") {
  Rng rng(112);
  const auto values = normal_values(rng, 3000, 2.0f);
  for (const std::size_t first : {0U, 1U, 3U, 7U}) {
    for (const std::size_t count : {0U, 1U, 15U, 16U, 17U, 31U, 1023U, 1024U, 1025U, 2900U}) {
      CAPTURE(first);
      CAPTURE(count);
      const std::span<const float> part = std::span<const float>(values).subspan(first, count);
      const double expected = sixteen_sums({part.begin(), part.end()});
      CHECK(measure(part).sum_of_squares == expected);
      std::vector<float> zeros(count, 0.0f);
      CHECK(measure_sum(part, 0.5f, zeros).sum_of_squares == expected);
      Measurement pieces;
      for_each_piece(count, [&](std::size_t begin, std::size_t length) {
        pieces.add(part.subspan(begin, length));
      });
      CHECK(pieces.stats().sum_of_squares == expected);
      CHECK(pieces.stats().max_abs == measure(part).max_abs);
    }
  }
}

TEST_CASE("every way to sum comes to the same bits") {
  Rng rng(116);
  const auto left = normal_values(rng, 2000, 2.0f);
  const auto right = normal_values(rng, 2000, 0.01f);
  const auto ways = ways_to_sum();
  for (const std::size_t count : {0U, 16U, 160U, 1984U}) {
    CAPTURE(count);
    Measurement::Sums expected[2];
    ways.back().values(expected[0], left.data() + 3, count);
    ways.back().sums(expected[1], left.data() + 3, -0.7f, right.data() + 1, count);
    for (const SumLoops& way : ways) {
      Measurement::Sums sums[2];
      way.values(sums[0], left.data() + 3, count);
      way.sums(sums[1], left.data() + 3, -0.7f, right.data() + 1, count);
      for (const std::size_t which : {0U, 1U}) {
        CHECK(sums[which].squares == expected[which].squares);
        CHECK(sums[which].largest == expected[which].largest);
      }
    }
  }
}

TEST_CASE("one value that is not finite is noticed wherever it stands") {
  const float bad_values[] = {std::nanf(""), -std::nanf(""), std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()};
  for (std::size_t place = 0; place < 40; ++place) {
    CAPTURE(place);
    for (const float bad : bad_values) {
      std::vector<float> values(40, 1.0f);
      values[place] = bad;
      CHECK(!measure(values).finite);
      CHECK(std::isinf(rms(measure(values), 40)));
      CHECK(!measure_sum(std::vector<float>(40, 1.0f), -1.0f, values).finite);
    }
  }
  CHECK(measure(std::vector<float>(40, std::numeric_limits<float>::max())).finite);
}

TEST_CASE("filling past the caches reaches every element and no other") {
  for (const std::size_t count : {0U, 1U, 3U, 4U, 5U, 31U, 64U}) {
    for (std::size_t offset = 0; offset < 9; ++offset) {
      CAPTURE(count);
      CAPTURE(offset);
      std::vector<float> values(100, 7.0f);
      fill_past_caches(std::span(values).subspan(offset, count), 2.5f);
      std::vector<float> expected(100, 7.0f);
      for (std::size_t i = 0; i < count; ++i) expected[offset + i] = 2.5f;
      CHECK(values == expected);
    }
  }
}

TEST_CASE("a copy past the caches is one, and tells the largest magnitude, whatever the address") {
  Rng rng(117);
  const auto start = normal_values(rng, 1100, 2.0f);
  for (const std::size_t count : {0U, 1U, 15U, 16U, 17U, 90U, 255U, 256U, 272U, 1024U, 1090U}) {
    for (std::size_t offset = 0; offset < 70; offset += 7) {  // of bytes
      CAPTURE(count);
      CAPTURE(offset);
      const auto source = std::span(start).subspan(offset % 10, count);
      std::vector<std::byte> target(4600, std::byte{9});
      const float largest =
          copy_past_caches(std::span(target).subspan(offset, count * sizeof(float)), source);
      CHECK(largest == largest_magnitude(source));
      std::vector<std::byte> expected(4600, std::byte{9});
      if (count > 0) std::memcpy(expected.data() + offset, source.data(), source.size_bytes());
      CHECK(target == expected);
    }
  }
}

TEST_CASE("a shift is the scaled difference and its sum, whatever the address") {
  Rng rng(115);
  constexpr std::size_t kSize = 1100;
  const auto difference = normal_values(rng, kSize, 2.0f);
  const auto start = normal_values(rng, kSize, 2.0f);
  for (const std::size_t count : {0U, 1U, 2U, 3U, 4U, 5U, 31U, 64U, 90U, 255U, 256U, 259U, 1090U}) {
    for (std::size_t offset = 0; offset < 9; ++offset) {
      CAPTURE(count);
      CAPTURE(offset);
      std::vector<float> weights = start;
      std::vector<float> correction(kSize, 7.0f);
      shift(std::span(weights).subspan(2, count), std::span(correction).subspan(offset, count),
            -0.3f, std::span(difference).first(count));
      std::vector<float> moved = start;
      std::vector<float> expected(kSize, 7.0f);
      for (std::size_t i = 0; i < count; ++i) {
        expected[offset + i] = -0.3f * difference[i];
        moved[2 + i] += -0.3f * difference[i];
      }
      CHECK(correction == expected);
      CHECK(weights == moved);
    }
  }
  std::vector<float> weight = {1.0f};
  std::vector<float> correction = {1.0f};
  shift(weight, correction, -0.5f, std::vector<float>{0.0f});
  CHECK(!std::signbit(correction[0]));
}

TEST_CASE("adding a scaled vector touches every element once") {
  std::vector<float> target = {1.0f, 2.0f, 3.0f};
  add_scaled(target, -0.5f, std::vector<float>{2.0f, 4.0f, 8.0f});
  CHECK(target == std::vector<float>{0.0f, 0.0f, -1.0f});
}

TEST_CASE("adding a scaled difference reaches every element, and equal ones change nothing") {
  for (const std::size_t size : {0U, 1U, 7U, 16U, 33U, 100U}) {
    CAPTURE(size);
    std::vector<float> target(size, 3.0f);
    std::vector<float> left(size);
    std::vector<float> right(size, 0.1f);
    for (std::size_t i = 0; i < size; ++i) left[i] = static_cast<float>(i);
    std::vector<float> expected(size);
    for (std::size_t i = 0; i < size; ++i) expected[i] = 3.0f + 0.5f * (left[i] - right[i]);
    add_scaled_difference(target, 0.5f, left, right);
    CHECK(target == expected);
    add_scaled_difference(target, 1e30f, left, left);
    CHECK(target == expected);
  }
}

}  // namespace starling::optim
