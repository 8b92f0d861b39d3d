// The element-wise operations of LayerOps on some of their rows, one thread: what cpu_layer_ops.cpp
// hands to its workers. Each is compiled for several instruction sets and picked at start-up, so
// that one binary runs everywhere. Same operands, shapes and formulas as layer_ops.h.
#pragma once

#include <cstdint>

#include "model/cpu_parallel.h"
#include "model/layer_ops.h"
#include "model/packed_gemm.h"

namespace starling::model {

void rms_norm_rows(const RmsNorm<>& args, RowRange rows);
// in_grad only.
void rms_norm_backward_rows(const RmsNormBackward<>& args, RowRange rows);
// gain_grad only: here the range counts columns, and every row is read.
void gain_grad_columns(const RmsNormBackward<>& args, RowRange columns);
void rope_rows(const Rope<>& args, RowRange rows);
void swiglu_rows(const SwiGlu<>& args, RowRange rows);
void swiglu_backward_rows(const SwiGluBackward<>& args, RowRange rows);
void residual_add_rows(const ResidualAdd<>& args, RowRange rows);
void cross_entropy_rows(const CrossEntropy<>& args, RowRange rows);
// The range counts columns; every token is read, in order.
void embed_backward_columns(const EmbedBackward<>& args, RowRange columns);

// The sums of a product become values of `out`, `stride` floats from row to row, or are added to
// them.
void store_strip(const Strip& strip, bool adds, float* out, std::int64_t stride);

// Rows of attention scores: `count` rows of `keys` values; the row at index i sees its first
// `visible + i` keys, and what it does not see becomes zero.
struct ScoreRows {
  float* values = nullptr;
  std::int64_t count = 0, keys = 0, visible = 1;
  float scale = 1.0F;
};
// values = softmax(scale * values); log_sums[i] = log of the denominator of row i.
void softmax_rows(const ScoreRows& rows, float* log_sums);
// values = exp(scale * values - log_sums[i]): the same weights again.
void weights_again(const ScoreRows& rows, const float* log_sums);
// values holds the gradients of the weights, and becomes that of the unscaled scores.
void softmax_backward_rows(const ScoreRows& rows, const float* weights);

}  // namespace starling::model
