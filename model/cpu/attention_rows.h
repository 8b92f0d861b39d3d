// The element-wise part of attention in bf16 (packed_attention.h), on tiles and rows of sums, one
// thread; by hand where the processor has a kernel (avx512_loops.h), else plain loops; attend_row()
// and add_rows() are compiled for several instruction sets (base/vector_clones.h). Inside the room
// only.
#pragma once

#include <cstdint>

#include "base/bf16.h"
#include "model/layer_ops.h"

namespace starling::model {

// Rows of unscaled scores, of whole panels of keys, `row` values from one to the next, as those of
// weights. The row at index i sees its first `visible + i` keys, up to all `keys`.
struct WeightRows {
  const float* scores = nullptr;
  bf16* weights = nullptr;
  std::int64_t row = 0, count = 0;
  std::int64_t visible = 1, keys = 0;
  float scale = 1.0F;
};
// weights = exp(scale * (score - the largest)), zero up to `keys` for what is not seen; inverses: 1
// / their sum; log_sums: the log of the softmax's denominator.
void softmax_rows(const WeightRows& rows, float* inverses, float* log_sums);

// One query, by keys and values as they lie, `stride` values from one to the next.
struct QueryRow {
  const bf16 *query = nullptr, *keys = nullptr, *values = nullptr;
  std::int64_t stride = 0, visible = 0, width = 0;
  float scale = 1.0F;
};
// `scratch`: visible + width floats. Returns the log of the softmax's denominator.
float attend_row(const QueryRow& row, float* scratch, bf16* out);

// Sums in rows.
struct SumRows {
  const float* sums = nullptr;
  std::int64_t row = 0;  // floats from one to the next
  std::int64_t count = 0, columns = 0;
};
void store_rows(const SumRows& rows, bf16* out, std::int64_t out_row);
void store_scaled_rows(const SumRows& rows, const float* scales, bf16* out, std::int64_t out_row);
void add_rows(const SumRows& rows, float* out, std::int64_t out_row);
// The first of them is of position `first`.
void turn_back_rows(const SumRows& rows, const Rotations<>& rotations, std::int64_t first,
                    bf16* out, std::int64_t out_row);

struct RowPairs {
  const bf16 *left = nullptr, *right = nullptr;
  std::int64_t row = 0, count = 0, columns = 0;
};
void row_dots(const RowPairs& rows, float* dots);

// A tile of kPanelColumns keys: the row at index i sees the first `visible + i` of them.
struct ScoreTile {
  const float *scores = nullptr, *weight_grads = nullptr;
  std::int64_t tile_row = 0;
  bf16 *weights = nullptr, *score_grads = nullptr;
  std::int64_t row = 0;
  std::int64_t count = 0, visible = 0;
  float scale = 1.0F;
};
// weights = exp(scale * score - log_sum), score_grads = scale * weight * (weight_grad - mean); both
// are zero for what is not seen.
void softmax_backward_tile(const ScoreTile& tile, const float* log_sums, const float* means);

}  // namespace starling::model
