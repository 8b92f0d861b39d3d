#include "model/cpu/attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/vector_clones.h"
#include "model/cpu/avx512_loops.h"
#include "model/cpu/cpu_elements.h"
#include "model/cpu/gemm_kernel.h"

namespace starling::model {

static_assert(kPanelColumns % kVector == 0);  // there are scores of all keys of a panel

void softmax_rows(const WeightRows& rows, float* inverses, float* log_sums) {
  if (avx512::kHasLoops) return avx512::softmax_rows(rows, inverses, log_sums);
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const float* __restrict__ scores = rows.scores + i * rows.row;
    bf16* __restrict__ weights = rows.weights + i * rows.row;
    const auto visible = static_cast<std::int32_t>(rows.visible + i);
    const auto end = static_cast<std::int32_t>(whole_vectors(visible));
    const float largest = largest_score(scores, visible);
    float lanes[kVector], seen[kVector];
    std::fill_n(lanes, kVector, 0.0F);
    for (std::int32_t key = 0; key < end; key += kVector) {
#pragma omp simd
      for (std::int32_t j = 0; j < kVector; ++j) {
        const float weight = vector_exp(rows.scale * (scores[key + j] - largest));
        seen[j] = key + j < visible ? weight : 0.0F;
        lanes[j] += seen[j];
      }
#pragma omp simd
      for (std::int32_t j = 0; j < kVector; ++j) weights[key + j] = rounded<bf16>(seen[j]);
    }
    const float sum = sum_of_lanes(lanes);
    std::fill(weights + end, weights + rows.keys, bf16{});
    inverses[i] = 1.0F / sum;
    log_sums[i] = rows.scale * largest + std::log(sum);
  }
}

STARLING_VECTOR_CLONES
float attend_row(const QueryRow& row, float* scratch, bf16* out) {
  const std::int64_t width = row.width, visible = row.visible;
  float* __restrict__ weights = scratch;
  float* __restrict__ sums = scratch + visible;
  float largest = -std::numeric_limits<float>::infinity();
  for (std::int64_t key = 0; key < visible; ++key) {
    const bf16* __restrict__ values = row.keys + key * row.stride;
    float score = 0.0F;
#pragma omp simd reduction(+ : score)
    for (std::int64_t c = 0; c < width; ++c) score += as_float(row.query[c]) * as_float(values[c]);
    weights[key] = score;
    largest = largest < score ? score : largest;
  }
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t key = 0; key < visible; ++key) {
    weights[key] = vector_exp(row.scale * (weights[key] - largest));
    sum += weights[key];
  }
  std::fill_n(sums, width, 0.0F);
  for (std::int64_t key = 0; key < visible; ++key) {
    const bf16* __restrict__ values = row.values + key * row.stride;
    const float weight = weights[key];
    for (std::int64_t c = 0; c < width; ++c) sums[c] += weight * as_float(values[c]);
  }
  const float inverse = 1.0F / sum;
  for (std::int64_t c = 0; c < width; ++c) out[c] = rounded<bf16>(inverse * sums[c]);
  return row.scale * largest + std::log(sum);
}

void store_rows(const SumRows& rows, bf16* out, std::int64_t out_row) {
  if (avx512::kHasLoops) return avx512::store_rows(rows, out, out_row);
  const std::int64_t columns = rows.columns;
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const float* __restrict__ sums = rows.sums + i * rows.row;
    bf16* __restrict__ to = out + i * out_row;
    for (std::int64_t c = 0; c < columns; ++c) to[c] = rounded<bf16>(sums[c]);
  }
}

void store_scaled_rows(const SumRows& rows, const float* scales, bf16* out, std::int64_t out_row) {
  if (avx512::kHasLoops) return avx512::store_scaled_rows(rows, scales, out, out_row);
  const std::int64_t columns = rows.columns;
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const float* __restrict__ sums = rows.sums + i * rows.row;
    bf16* __restrict__ to = out + i * out_row;
    const float scale = scales[i];
    for (std::int64_t c = 0; c < columns; ++c) to[c] = rounded<bf16>(scale * sums[c]);
  }
}

STARLING_VECTOR_CLONES
void add_rows(const SumRows& rows, float* out, std::int64_t out_row) {
  const std::int64_t columns = rows.columns;
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const float* __restrict__ sums = rows.sums + i * rows.row;
    float* __restrict__ to = out + i * out_row;
    for (std::int64_t c = 0; c < columns; ++c) to[c] += sums[c];
  }
}

void turn_back_rows(const SumRows& rows, const Rotations<>& rotations, std::int64_t first,
                    bf16* out, std::int64_t out_row) {
  if (avx512::kHasLoops) return avx512::turn_back_rows(rows, rotations, first, out, out_row);
  const std::int64_t half = rows.columns / 2;
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const std::int64_t position = (first + i) * half;
    turn_head(rows.sums + i * rows.row, out + i * out_row,
              {rotations.cosines.data + position, rotations.sines.data + position, half, -1.0F});
  }
}

void row_dots(const RowPairs& rows, float* dots) {
  if (avx512::kHasLoops) return avx512::row_dots(rows, dots);
  const std::int64_t columns = rows.columns;
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const bf16* __restrict__ left = rows.left + i * rows.row;
    const bf16* __restrict__ right = rows.right + i * rows.row;
    float dot = 0.0F;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t c = 0; c < columns; ++c) dot += as_float(left[c]) * as_float(right[c]);
    dots[i] = dot;
  }
}

void softmax_backward_tile(const ScoreTile& tile, const float* log_sums, const float* means) {
  if (avx512::kHasLoops) return avx512::softmax_backward_tile(tile, log_sums, means);
  for (std::int64_t i = 0; i < tile.count; ++i) {
    const float* __restrict__ scores = tile.scores + i * tile.tile_row;
    const float* __restrict__ weight_grads = tile.weight_grads + i * tile.tile_row;
    bf16* __restrict__ weights = tile.weights + i * tile.row;
    bf16* __restrict__ score_grads = tile.score_grads + i * tile.row;
    const float log_sum = log_sums[i], mean = means[i], scale = tile.scale;
    const auto visible = static_cast<std::int32_t>(std::min(tile.visible + i, kPanelColumns));
#pragma omp simd
    for (std::int32_t key = 0; key < kPanelColumns; ++key) {
      const float weight = key < visible ? vector_exp(scale * scores[key] - log_sum) : 0.0F;
      const float pull = key < visible ? weight_grads[key] - mean : 0.0F;
      weights[key] = rounded<bf16>(weight);
      score_grads[key] = rounded<bf16>(scale * weight * pull);
    }
  }
}

}  // namespace starling::model
