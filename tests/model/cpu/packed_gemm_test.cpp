#include "model/cpu/packed_gemm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/cpu_device.h"
#include "base/rng.h"
#include "tests/model/cpu/plain_gemm_kernel.h"
#include "tests/support/worst.h"

namespace starling::model {

namespace {

template <class T>
T made(float value);
template <>
float made<float>(float value) {
  return value;
}
template <>
bf16 made<bf16>(float value) {
  return to_bf16(value);
}

double rounded(float value) { return to_float(to_bf16(value)); }
double rounded(bf16 value) { return to_float(value); }

// An operand, and what its values are worth once they are rounded.
template <class T>
struct Operand {
  std::int64_t count, depth;
  bool transposed;
  std::vector<T> values;

  Operand(Rng& rng, std::int64_t rows, std::int64_t of_depth, bool turned)
      : count(rows), depth(of_depth), transposed(turned) {
    for (std::int64_t i = 0; i < count * depth; ++i) {
      values.push_back(made<T>(static_cast<float>(2.0 * rng.unit() - 1.0)));
    }
  }
  PanelSource<T> source() const { return {values.data(), transposed ? count : depth, transposed}; }
  double at(std::int64_t i, std::int64_t k) const {
    return rounded(values[static_cast<std::size_t>(transposed ? k * count + i : i * depth + k)]);
  }
};

struct Cut {
  std::int64_t strip;
  bool paired;
};

// What every strip says, at its place; NaN where nothing was said.
std::vector<float> sums_of(PackedGemm& gemm, const Product& product, bool by_depth = false) {
  std::vector<float> out(static_cast<std::size_t>(product.rows * product.columns),
                         std::numeric_limits<float>::quiet_NaN());
  const auto store = [&](const Strip& strip) {
    for (std::int64_t row = 0; row < strip.rows; ++row) {
      for (std::int64_t i = 0; i < strip.columns; ++i) {
        const float* sum = strip.sums + row * strip.stride + i;
        float* to =
            &out[static_cast<std::size_t>((strip.row + row) * product.columns + strip.column + i)];
        *to = *sum + (strip.adds ? *to : 0.0F);
        if (!product.paired) continue;
        float* other = to + product.columns / 2;
        *other = sum[strip.pair] + (strip.adds ? *other : 0.0F);
      }
    }
  };
  by_depth ? gemm.run_by_depth(product, store) : gemm.run(product, store);
  return out;
}

template <class Left, class Right>
double worst_error(PackedGemm& gemm, const Operand<Left>& left, const Operand<Right>& right,
                   Cut cut) {
  const auto sums = sums_of(gemm, {.left = left.source(),
                                   .right = right.source(),
                                   .rows = left.count,
                                   .columns = right.count,
                                   .depth = left.depth,
                                   .strip = cut.strip,
                                   .paired = cut.paired});
  double worst = 0;
  for (std::int64_t row = 0; row < left.count; ++row) {
    for (std::int64_t column = 0; column < right.count; ++column) {
      double expected = 0;
      for (std::int64_t k = 0; k < left.depth; ++k)
        expected += left.at(row, k) * right.at(column, k);
      const double sum = sums[static_cast<std::size_t>(row * right.count + column)];
      testing::note_worst(worst,
                          std::abs(sum - expected) / std::sqrt(static_cast<double>(left.depth)));
    }
  }
  return worst;
}

// Odd sizes, sizes of whole tiles, and a depth that is summed in two parts.
struct Sizes {
  std::int64_t rows, columns, depth;
};
const Sizes kSizes[] = {{1, 2, 1}, {33, 66, 67}, {64, 128, 64}, {131, 70, 32}, {3, 40, 4099}};
const Cut kCuts[] = {{32, false}, {40, false}, {64, true}};

template <class Left, class Right>
void check_all(PackedGemm& gemm, Rng& rng) {
  for (const Sizes& sizes : kSizes) {
    for (int turned = 0; turned < 4; ++turned) {
      const Operand<Left> left(rng, sizes.rows, sizes.depth, (turned & 1) != 0);
      const Operand<Right> right(rng, sizes.columns, sizes.depth, (turned & 2) != 0);
      for (const Cut& cut : kCuts) {
        CAPTURE(sizes.rows);
        CAPTURE(sizes.columns);
        CAPTURE(sizes.depth);
        CAPTURE(turned);
        CAPTURE(cut.strip);
        CHECK(worst_error(gemm, left, right, cut) < 3e-6);
      }
    }
  }
}

Buffer memory_for(const ThreadTeam& team) {
  return CpuDevice().allocate(MemoryKind::kDevice, PackedGemm::memory_bytes(team.size())).value();
}

}  // namespace

TEST_CASE("products in bf16 are those of the rounded operands, on every kernel") {
  for (const GemmKernel* kernel : kernels_to_test()) {
    for (const int threads : {1, 3}) {
      CAPTURE(std::string(kernel->name));
      CAPTURE(threads);
      ThreadTeam team(threads);
      const Buffer memory = memory_for(team);
      PackedGemm gemm(*kernel, team, memory.as<std::byte>().data);
      Rng rng(7);
      check_all<float, float>(gemm, rng);
      check_all<bf16, float>(gemm, rng);
      check_all<bf16, bf16>(gemm, rng);
    }
  }
}

TEST_CASE("a product in bf16 has the same bits for any number of threads") {
  for (const GemmKernel* kernel : kernels_to_test()) {
    Rng rng(3);
    const Operand<float> left(rng, 200, 150, false), right(rng, 90, 150, false);
    std::vector<float> first;
    for (const int threads : {1, 2, 5}) {
      ThreadTeam team(threads);
      const Buffer memory = memory_for(team);
      PackedGemm gemm(*kernel, team, memory.as<std::byte>().data);
      const auto sums = sums_of(gemm, {left.source(), right.source(), 200, 90, 150});
      if (first.empty()) first = sums;
      CHECK(sums == first);
    }
  }
}

TEST_CASE("a product summed in shares of its depth has the same bits for any number of threads") {
  // Few sums, of several parts, the last of them short; one part; many sums; more than one round
  // of parts; and parts that are too many for the memory of two.
  const Sizes sizes[] = {
      {40, 70, 1100}, {40, 70, 500}, {400, 400, 1030}, {300, 130, 8200}, {30, 4000, 1030}};
  for (const GemmKernel* kernel : kernels_to_test()) {
    for (const Sizes& size : sizes) {
      CAPTURE(size.rows);
      CAPTURE(size.depth);
      Rng rng(4);
      const Operand<float> left(rng, size.rows, size.depth, true);
      const Operand<bf16> right(rng, size.columns, size.depth, true);
      const Product product{left.source(), right.source(), size.rows, size.columns, size.depth};
      std::vector<float> first;
      for (const int threads : {1, 2, 3, 5}) {
        ThreadTeam team(threads);
        const Buffer memory = memory_for(team);
        PackedGemm gemm(*kernel, team, memory.as<std::byte>().data);
        const auto sums = sums_of(gemm, product, true);
        if (first.empty()) first = sums;
        CHECK(sums == first);
        if (threads > 1) continue;
        // Of all at once: the same but for roundings.
        const auto whole = sums_of(gemm, product);
        double worst = 0;
        for (std::size_t i = 0; i < sums.size(); ++i) {
          testing::note_worst(worst, std::abs(double{sums[i]} - double{whole[i]}));
        }
        CHECK(worst / std::sqrt(static_cast<double>(size.depth)) < 3e-6);
      }
    }
  }
}

TEST_CASE("what is not finite stays so in bf16, and nothing spreads to other rows") {
  for (const GemmKernel* kernel : kernels_to_test()) {
    ThreadTeam team(1);
    const Buffer memory = memory_for(team);
    PackedGemm gemm(*kernel, team, memory.as<std::byte>().data);
    Rng rng(5);
    Operand<float> left(rng, 40, 33, false);
    const Operand<float> right(rng, 35, 33, false);
    left.values[7 * 33 + 3] = std::numeric_limits<float>::infinity();
    left.values[20 * 33] = std::numeric_limits<float>::quiet_NaN();
    const auto sums = sums_of(gemm, {left.source(), right.source(), 40, 35, 33});
    for (std::size_t i = 0; i < sums.size(); ++i) {
      CAPTURE(i);
      CHECK(std::isfinite(sums[i]) == (i / 35 != 7 && i / 35 != 20));
    }
  }
}

}  // namespace starling::model
