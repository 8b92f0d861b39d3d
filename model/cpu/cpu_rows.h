// The element-wise operations of LayerOps on some of their rows, one thread: what cpu_layer_ops.cpp
// hands to its workers. Each is compiled for several instruction sets (base/vector_clones.h); norms
// in bf16 are by hand where the processor has a kernel (avx512_loops.h). Same operands, shapes and
// formulas as layer_ops.h; activations are float or bf16.
#pragma once

#include <cstdint>

#include "model/cpu/cpu_parallel.h"
#include "model/layer_ops.h"

namespace starling::model {

void rms_norm_rows(const RmsNorm<>& args, RowRange rows);
// Sets gain_grad (width) to what these rows add to that of args, which stays as it is.
void rms_norm_backward_rows(const RmsNormBackward<>& args, RowRange rows, float* gain_grad);
// sums[i] += the values of column i in all rows. The range counts columns.
void add_rows_up(const ConstTensor& values, RowRange columns, float* sums);
// sign 1: queries and keys are turned, in place; -1: they are turned back.
struct RopeRows {
  TypedTensor qkv;
  Rotations<> rotations;
  HeadShape shape;
  float sign = 1.0F;
};
void rope_rows(const RopeRows& args, RowRange rows);
// gated only: gate_up is there.
void swiglu_rows(const LinearSwiGlu<>& args, RowRange rows);
// `gated` holds its gradient and becomes itself; gate_up_grad is set.
void swiglu_backward_rows(const SwiGluLinearBackward<>& args, RowRange rows);
// Of floats to bf16. One shape.
void round_rows(const ConstTensor& from, const TypedTensor& to, RowRange rows);
void cross_entropy_rows(const CrossEntropy<>& args, RowRange rows);
// The range counts columns; every token is read, in order.
void embed_backward_columns(const EmbedBackward<>& args, RowRange columns);

// Rows of attention scores, `row` values from one to the next, whole vectors of them
// (cpu_values.h); the row at index i sees its first `visible + i`, and the others become zero.
struct ScoreRows {
  float* values = nullptr;
  std::int64_t count = 0, row = 0, visible = 1;
  float scale = 1.0F;
};
// values = softmax(scale * values); log_sums[i] = log of the denominator of row i.
void softmax_rows(const ScoreRows& rows, float* log_sums);
// values = exp(scale * values - log_sums[i]): the same weights again.
void weights_again(const ScoreRows& rows, const float* log_sums);
// values holds the gradients of the weights, and becomes that of the unscaled scores.
void softmax_backward_rows(const ScoreRows& rows, const float* weights);

}  // namespace starling::model
