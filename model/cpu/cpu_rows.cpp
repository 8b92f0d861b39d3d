#include "model/cpu/cpu_rows.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/vector_clones.h"
#include "model/cpu/avx512_loops.h"
#include "model/cpu/cpu_elements.h"
#include "model/cpu/cpu_exp.h"
#include "model/cpu/cpu_values.h"

namespace starling::model {

namespace {

template <class Act>
STARLING_INLINE void rms_norm_of(const RmsNorm<>& args, RowRange rows) {
  const std::int64_t width = args.in.columns();
  const float* __restrict__ gain = args.gain.data;
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    const float* __restrict__ in = args.in.data + row * width;
    Act* __restrict__ out = args.out.as<Act>().data + row * width;
    float squares = 0.0F;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < width; ++i) squares += in[i] * in[i];
    const float inverse = 1.0F / std::sqrt(squares / static_cast<float>(width) + args.epsilon);
    args.inverse_rms.data[row] = inverse;
    for (std::int64_t i = 0; i < width; ++i) out[i] = rounded<Act>(in[i] * inverse * gain[i]);
  }
}

template <class Act>
STARLING_INLINE void rms_norm_backward_of(const RmsNormBackward<>& args, RowRange rows,
                                          float* __restrict__ gain_grad) {
  const std::int64_t width = args.in.columns();
  const float* __restrict__ gain = args.gain.data;
  std::fill_n(gain_grad, width, 0.0F);
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    const float* __restrict__ in = args.in.data + row * width;
    const Act* __restrict__ out_grad = args.out_grad.as<Act>().data + row * width;
    float* __restrict__ in_grad = args.in_grad.data + row * width;
    const float inverse = args.inverse_rms.data[row];
    float along = 0.0F;
#pragma omp simd reduction(+ : along)
    for (std::int64_t i = 0; i < width; ++i) along += as_float(out_grad[i]) * gain[i] * in[i];
    const float pull = along * inverse * inverse / static_cast<float>(width);
    for (std::int64_t i = 0; i < width; ++i) {
      in_grad[i] += inverse * (as_float(out_grad[i]) * gain[i] - in[i] * pull);
      gain_grad[i] += as_float(out_grad[i]) * in[i] * inverse;
    }
    if constexpr (std::is_same_v<Act, bf16>) {
      bf16* __restrict__ out = args.in_grad_rounded.as<bf16>().data + row * width;
      for (std::int64_t i = 0; i < width; ++i) out[i] = rounded<bf16>(in_grad[i]);
    }
  }
}

template <class Act>
STARLING_INLINE void rope_of(const RopeRows& args, RowRange rows) {
  const HeadShape& shape = args.shape;
  const std::int64_t half = shape.head_width / 2;
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    const std::int64_t position = row % shape.tokens * half;
    const Turn turn{args.rotations.cosines.data + position, args.rotations.sines.data + position,
                    half, args.sign};
    Act* heads = args.qkv.as<Act>().data + row * shape.packed_width();
    for (std::int64_t head = 0; head < shape.heads + shape.kv_heads; ++head) {
      turn_head(heads + head * shape.head_width, heads + head * shape.head_width, turn);
    }
  }
}

template <class Act>
STARLING_INLINE void swiglu_of(const LinearSwiGlu<>& args, RowRange rows) {
  const std::int64_t ffn = args.gated.columns();
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    const Act* gate = args.gate_up.as<Act>().data + row * 2 * ffn;
    swiglu_values(gate, gate + ffn, args.gated.as<Act>().data + row * ffn, ffn);
  }
}

template <class Act>
STARLING_INLINE void swiglu_backward_of(const SwiGluLinearBackward<>& args, RowRange rows) {
  const std::int64_t ffn = args.gated.columns();
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    const Act* gate = args.gate_up.as<Act>().data + row * 2 * ffn;
    Act* grad = args.gate_up_grad.as<Act>().data + row * 2 * ffn;
    Act* gated = args.gated.as<Act>().data + row * ffn;
    swiglu_backward_values(gated, SwiGluValues<Act>{gate, gate + ffn, grad, grad + ffn, gated},
                           ffn);
  }
}

// Not restrict: the gradient may be where the logits are.
template <class Act>
STARLING_INLINE void cross_entropy_of(const CrossEntropy<>& args, RowRange rows) {
  const std::int64_t vocabulary = args.logits.columns();
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    float* logits = args.logits.data + row * vocabulary;
    Act* gradient = args.gradient.as<Act>().data + row * vocabulary;
    const std::int32_t target = args.targets.data[row];
    const float target_logit = logits[target];
    float largest = logits[0];
#pragma omp simd reduction(max : largest)
    for (std::int64_t i = 0; i < vocabulary; ++i)
      largest = largest < logits[i] ? logits[i] : largest;
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < vocabulary; ++i) {
      logits[i] = vector_exp(logits[i] - largest);
      sum += logits[i];
    }
    args.losses.data[row] = largest + std::log(sum) - target_logit;
    const float factor = args.scale / sum;
    const float of_target = logits[target] * factor - args.scale;
#pragma omp simd
    for (std::int64_t i = 0; i < vocabulary; ++i) gradient[i] = rounded<Act>(logits[i] * factor);
    gradient[target] = rounded<Act>(of_target);
  }
}

}  // namespace

STARLING_VECTOR_CLONES
void rms_norm_rows(const RmsNorm<>& args, RowRange rows) {
  if (!is_bf16(args.out.dtype)) return rms_norm_of<float>(args, rows);
  if (avx512::kHasLoops) return avx512::rms_norm_rows(args, rows);
  rms_norm_of<bf16>(args, rows);
}

STARLING_VECTOR_CLONES
void rms_norm_backward_rows(const RmsNormBackward<>& args, RowRange rows, float* gain_grad) {
  STARLING_ASSERT(args.in_grad_rounded.shape == args.in_grad.shape);
  if (is_bf16(args.out_grad.dtype)) {
    if (avx512::kHasLoops) return avx512::rms_norm_backward_rows(args, rows, gain_grad);
    return rms_norm_backward_of<bf16>(args, rows, gain_grad);
  }
  STARLING_ASSERT(args.in_grad_rounded.as<float>().data == args.in_grad.data);
  rms_norm_backward_of<float>(args, rows, gain_grad);
}

STARLING_VECTOR_CLONES
void add_rows_up(const ConstTensor& values, RowRange columns, float* sums) {
  const std::int64_t count = columns.count;
  float* __restrict__ to = sums + columns.first;
  for (std::int64_t row = 0; row < values.rows(); ++row) {
    const float* __restrict__ from = values.data + row * values.columns() + columns.first;
    for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
  }
}

STARLING_VECTOR_CLONES
void rope_rows(const RopeRows& args, RowRange rows) {
  if (is_bf16(args.qkv.dtype)) return rope_of<bf16>(args, rows);
  rope_of<float>(args, rows);
}

STARLING_VECTOR_CLONES
void swiglu_rows(const LinearSwiGlu<>& args, RowRange rows) {
  if (is_bf16(args.gated.dtype)) return swiglu_of<bf16>(args, rows);
  swiglu_of<float>(args, rows);
}

STARLING_VECTOR_CLONES
void swiglu_backward_rows(const SwiGluLinearBackward<>& args, RowRange rows) {
  if (is_bf16(args.gated.dtype)) return swiglu_backward_of<bf16>(args, rows);
  swiglu_backward_of<float>(args, rows);
}

STARLING_VECTOR_CLONES
void round_rows(const ConstTensor& from, const TypedTensor& to, RowRange rows) {
  STARLING_ASSERT(from.shape == to.shape);
  const std::int64_t first = rows.first * from.columns(), count = rows.count * from.columns();
  const float* __restrict__ values = from.data + first;
  bf16* __restrict__ out = to.as<bf16>().data + first;
  for (std::int64_t i = 0; i < count; ++i) out[i] = rounded<bf16>(values[i]);
}

STARLING_VECTOR_CLONES
void cross_entropy_rows(const CrossEntropy<>& args, RowRange rows) {
  if (is_bf16(args.gradient.dtype)) return cross_entropy_of<bf16>(args, rows);
  cross_entropy_of<float>(args, rows);
}

STARLING_VECTOR_CLONES
void embed_backward_columns(const EmbedBackward<>& args, RowRange columns) {
  const std::int64_t width = args.out_grad.columns(), tokens = args.out_grad.rows();
  const std::int64_t count = columns.count;
  for (std::int64_t row = 0; row < tokens; ++row) {
    const std::int64_t id = args.tokens.data[row];
    const float* __restrict__ out_grad = args.out_grad.data + row * width + columns.first;
    float* __restrict__ weight_grad = args.weight_grad.data + id * width + columns.first;
    for (std::int64_t i = 0; i < count; ++i) weight_grad[i] += out_grad[i];
  }
}

STARLING_VECTOR_CLONES
void softmax_rows(const ScoreRows& rows, float* log_sums) {
  for (std::int64_t i = 0; i < rows.count; ++i) {
    float* __restrict__ values = rows.values + i * rows.row;
    const auto visible = static_cast<std::int32_t>(rows.visible + i);
    const auto end = static_cast<std::int32_t>(whole_vectors(visible));
    const float largest = largest_score(values, visible);
    float lanes[kVector] = {};
    for (std::int32_t key = 0; key < end; key += kVector) {
#pragma omp simd
      for (std::int32_t j = 0; j < kVector; ++j) {
        const float weight = vector_exp(rows.scale * (values[key + j] - largest));
        values[key + j] = key + j < visible ? weight : 0.0F;
        lanes[j] += values[key + j];
      }
    }
    const float sum = sum_of_lanes(lanes), inverse = 1.0F / sum;
    for (std::int32_t key = 0; key < end; ++key) values[key] *= inverse;
    std::fill(values + end, values + rows.row, 0.0F);
    log_sums[i] = rows.scale * largest + std::log(sum);
  }
}

STARLING_VECTOR_CLONES
void weights_again(const ScoreRows& rows, const float* log_sums) {
  for (std::int64_t i = 0; i < rows.count; ++i) {
    float* __restrict__ values = rows.values + i * rows.row;
    const auto visible = static_cast<std::int32_t>(rows.visible + i);
    const auto end = static_cast<std::int32_t>(whole_vectors(visible));
    const float log_sum = log_sums[i];
    for (std::int32_t key = 0; key < end; key += kVector) {
#pragma omp simd
      for (std::int32_t j = 0; j < kVector; ++j) {
        const float weight = vector_exp(rows.scale * values[key + j] - log_sum);
        values[key + j] = key + j < visible ? weight : 0.0F;
      }
    }
    std::fill(values + end, values + rows.row, 0.0F);
  }
}

STARLING_VECTOR_CLONES
void softmax_backward_rows(const ScoreRows& rows, const float* weights) {
  for (std::int64_t i = 0; i < rows.count; ++i) {
    float* __restrict__ values = rows.values + i * rows.row;
    const float* __restrict__ weight = weights + i * rows.row;
    const auto visible = static_cast<std::int32_t>(rows.visible + i);
    const auto end = static_cast<std::int32_t>(whole_vectors(visible));
    float lanes[kVector] = {};
    for (std::int32_t key = 0; key < end; key += kVector) {
#pragma omp simd
      for (std::int32_t j = 0; j < kVector; ++j) {
        lanes[j] += key + j < visible ? weight[key + j] * values[key + j] : 0.0F;
      }
    }
    const float mean = sum_of_lanes(lanes);
    for (std::int32_t key = 0; key < end; key += kVector) {
#pragma omp simd
      for (std::int32_t j = 0; j < kVector; ++j) {
        const float grad = rows.scale * weight[key + j] * (values[key + j] - mean);
        values[key + j] = key + j < visible ? grad : 0.0F;
      }
    }
    std::fill(values + end, values + rows.row, 0.0F);
  }
}

}  // namespace starling::model
