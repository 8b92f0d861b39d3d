#include "model/cpu/few_rows.h"

#include <algorithm>

#include "base/assert.h"
#include "base/vector_clones.h"
#include "model/cpu/cpu_values.h"

namespace starling::model {

namespace {

constexpr std::int64_t kWidest = 512;  // columns of a strip

// Where a strip's columns begin, and where their sums go.
struct Columns {
  std::int64_t first = 0, count = 0;
  float* sums = nullptr;  // kWidest from row to row
};

STARLING_VECTOR_CLONES
void sum_columns(const Product& product, const Columns& columns) {
  const std::int64_t depth = product.depth, rows = product.rows, count = columns.count;
  const std::int64_t left_stride = product.left.halves.stride;
  const PanelSource<float> right = product.right.floats.at(columns.first, 0);
  for (std::int64_t column = 0; column < count; ++column) {
    const float* __restrict__ weights = right.data + column * right.stride;
    for (std::int64_t row = 0; row < rows; ++row) {
      const bf16* __restrict__ values = product.left.halves.data + row * left_stride;
      float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t k = 0; k < depth; ++k) sum += as_float(values[k]) * weights[k];
      columns.sums[row * kWidest + column] = sum;
    }
  }
}

}  // namespace

bool is_few_rows(const Product& product) {
  return product.rows <= kFewRows && product.left.halves.data != nullptr &&
         product.right.floats.data != nullptr && !product.left.halves.transposed &&
         !product.right.floats.transposed;
}

void multiply_few_rows(ThreadTeam& team, const Product& product, const StripStore& store) {
  STARLING_ASSERT(is_few_rows(product));
  const std::int64_t parts = product.paired ? 2 : 1, part_columns = product.columns / parts;
  STARLING_ASSERT(parts * product.strip <= kWidest);
  const std::int64_t strips = (part_columns + product.strip - 1) / product.strip;
  team.run(strips, [&](std::int64_t index, int /*worker*/) {
    float sums[kFewRows * kWidest];
    const std::int64_t column = index * product.strip;
    const std::int64_t count = std::min(product.strip, part_columns - column);
    for (std::int64_t part = 0; part < parts; ++part) {
      sum_columns(product, {part * part_columns + column, count, sums + part * product.strip});
    }
    store({.sums = sums,
           .stride = kWidest,
           .pair = product.strip,
           .row = 0,
           .rows = product.rows,
           .column = column,
           .columns = count,
           .adds = false});
  });
}

}  // namespace starling::model
