#include "model/cpu_rows.h"

#include <algorithm>
#include <cmath>

#include "model/cpu_exp.h"

// The resolvers of cloned functions run before a sanitizer is ready, and clang 14 does not clone
// functions in every place that GCC does.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define STARLING_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define STARLING_CLONES
#endif

namespace starling::model {

STARLING_CLONES
void rms_norm_rows(const RmsNorm<>& args, RowRange rows) {
  const std::int64_t width = args.in.columns();
  const float* __restrict__ gain = args.gain.data;
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    const float* __restrict__ in = args.in.data + row * width;
    float* __restrict__ out = args.out.data + row * width;
    float squares = 0.0F;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < width; ++i) squares += in[i] * in[i];
    const float inverse = 1.0F / std::sqrt(squares / static_cast<float>(width) + args.epsilon);
    args.inverse_rms.data[row] = inverse;
    for (std::int64_t i = 0; i < width; ++i) out[i] = in[i] * inverse * gain[i];
  }
}

STARLING_CLONES
void rms_norm_backward_rows(const RmsNormBackward<>& args, RowRange rows) {
  const std::int64_t width = args.in.columns();
  const float* __restrict__ gain = args.gain.data;
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    const float* __restrict__ in = args.in.data + row * width;
    const float* __restrict__ out_grad = args.out_grad.data + row * width;
    float* __restrict__ in_grad = args.in_grad.data + row * width;
    const float inverse = args.inverse_rms.data[row];
    float along = 0.0F;
#pragma omp simd reduction(+ : along)
    for (std::int64_t i = 0; i < width; ++i) along += out_grad[i] * gain[i] * in[i];
    const float pull = along * inverse * inverse / static_cast<float>(width);
    for (std::int64_t i = 0; i < width; ++i) {
      in_grad[i] += inverse * (out_grad[i] * gain[i] - in[i] * pull);
    }
  }
}

STARLING_CLONES
void gain_grad_columns(const RmsNormBackward<>& args, RowRange columns) {
  const std::int64_t width = args.in.columns(), tokens = args.in.rows();
  float* __restrict__ gain_grad = args.gain_grad.data + columns.first;
  for (std::int64_t row = 0; row < tokens; ++row) {
    const float* __restrict__ in = args.in.data + row * width + columns.first;
    const float* __restrict__ out_grad = args.out_grad.data + row * width + columns.first;
    const float inverse = args.inverse_rms.data[row];
    for (std::int64_t i = 0; i < columns.count; ++i) gain_grad[i] += out_grad[i] * in[i] * inverse;
  }
}

STARLING_CLONES
void rope_rows(const Rope<>& args, RowRange rows) {
  const HeadShape& shape = args.shape;
  const std::int64_t half = shape.head_width / 2;
  const float sign = args.rotation == Rotation::kForward ? 1.0F : -1.0F;
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    const float* __restrict__ cosines = args.cosines.data + (row % shape.tokens) * half;
    const float* __restrict__ sines = args.sines.data + (row % shape.tokens) * half;
    for (std::int64_t head = 0; head < shape.heads + shape.kv_heads; ++head) {
      float* __restrict__ low =
          args.qkv.data + row * shape.packed_width() + head * shape.head_width;
      float* __restrict__ high = low + half;
      for (std::int64_t i = 0; i < half; ++i) {
        const float first = low[i], second = high[i], turn = sign * sines[i];
        low[i] = first * cosines[i] - second * turn;
        high[i] = second * cosines[i] + first * turn;
      }
    }
  }
}

STARLING_CLONES
void swiglu_rows(const SwiGlu<>& args, RowRange rows) {
  const std::int64_t ffn = args.out.columns();
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    const float* __restrict__ gate = args.gate_up.data + row * 2 * ffn;
    const float* __restrict__ up = gate + ffn;
    float* __restrict__ out = args.out.data + row * ffn;
    for (std::int64_t i = 0; i < ffn; ++i) {
      out[i] = gate[i] * up[i] / (1.0F + vector_exp(-gate[i]));
    }
  }
}

STARLING_CLONES
void swiglu_backward_rows(const SwiGluBackward<>& args, RowRange rows) {
  const std::int64_t ffn = args.out_grad.columns();
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    const float* __restrict__ gate = args.gate_up.data + row * 2 * ffn;
    const float* __restrict__ up = gate + ffn;
    const float* __restrict__ out_grad = args.out_grad.data + row * ffn;
    float* __restrict__ gate_grad = args.gate_up_grad.data + row * 2 * ffn;
    float* __restrict__ up_grad = gate_grad + ffn;
    for (std::int64_t i = 0; i < ffn; ++i) {
      const float sigmoid = 1.0F / (1.0F + vector_exp(-gate[i]));
      const float gradient = out_grad[i] * sigmoid;
      gate_grad[i] = gradient * up[i] * (1.0F + gate[i] * (1.0F - sigmoid));
      up_grad[i] = gradient * gate[i];
    }
  }
}

STARLING_CLONES
void residual_add_rows(const ResidualAdd<>& args, RowRange rows) {
  const std::int64_t first = rows.first * args.out.columns();
  const std::int64_t count = rows.count * args.out.columns();
  const float* __restrict__ left = args.left.data + first;
  const float* __restrict__ right = args.right.data + first;
  float* __restrict__ out = args.out.data + first;
  for (std::int64_t i = 0; i < count; ++i) out[i] = left[i] + right[i];
}

STARLING_CLONES
void cross_entropy_rows(const CrossEntropy<>& args, RowRange rows) {
  const std::int64_t vocabulary = args.logits.columns();
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    float* __restrict__ logits = args.logits.data + row * vocabulary;
    const std::int32_t target = args.targets.data[row];
    const float target_logit = logits[target];
    float largest = logits[0];
#pragma omp simd reduction(max : largest)
    for (std::int64_t i = 0; i < vocabulary; ++i) largest = std::max(largest, logits[i]);
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < vocabulary; ++i) {
      logits[i] = vector_exp(logits[i] - largest);
      sum += logits[i];
    }
    args.losses.data[row] = largest + std::log(sum) - target_logit;
    const float factor = args.scale / sum;
    for (std::int64_t i = 0; i < vocabulary; ++i) logits[i] *= factor;
    logits[target] -= args.scale;
  }
}

STARLING_CLONES
void embed_backward_columns(const EmbedBackward<>& args, RowRange columns) {
  const std::int64_t width = args.out_grad.columns(), tokens = args.out_grad.rows();
  for (std::int64_t row = 0; row < tokens; ++row) {
    const std::int64_t id = args.tokens.data[row];
    const float* __restrict__ out_grad = args.out_grad.data + row * width + columns.first;
    float* __restrict__ weight_grad = args.weight_grad.data + id * width + columns.first;
    for (std::int64_t i = 0; i < columns.count; ++i) weight_grad[i] += out_grad[i];
  }
}

STARLING_CLONES
static void add_row(const float* __restrict__ sums, float* __restrict__ out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] += sums[i];
}

void store_strip(const Strip& strip, bool adds, float* out, std::int64_t stride) {
  for (std::int64_t row = 0; row < strip.rows; ++row) {
    const float* sums = strip.sums + row * strip.stride;
    float* to = out + (strip.row + row) * stride + strip.column;
    if (adds || strip.adds) {
      add_row(sums, to, strip.columns);
    } else {
      std::copy_n(sums, strip.columns, to);
    }
  }
}

STARLING_CLONES
void softmax_rows(const ScoreRows& rows, float* log_sums) {
  for (std::int64_t row = 0; row < rows.count; ++row) {
    float* __restrict__ values = rows.values + row * rows.keys;
    const std::int64_t visible = rows.visible + row;
    float largest = values[0];
#pragma omp simd reduction(max : largest)
    for (std::int64_t i = 0; i < visible; ++i) largest = std::max(largest, values[i]);
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < visible; ++i) {
      values[i] = vector_exp(rows.scale * (values[i] - largest));
      sum += values[i];
    }
    const float inverse = 1.0F / sum;
    for (std::int64_t i = 0; i < visible; ++i) values[i] *= inverse;
    std::fill(values + visible, values + rows.keys, 0.0F);
    log_sums[row] = rows.scale * largest + std::log(sum);
  }
}

STARLING_CLONES
void weights_again(const ScoreRows& rows, const float* log_sums) {
  for (std::int64_t row = 0; row < rows.count; ++row) {
    float* __restrict__ values = rows.values + row * rows.keys;
    const std::int64_t visible = rows.visible + row;
    const float log_sum = log_sums[row];
    for (std::int64_t i = 0; i < visible; ++i) {
      values[i] = vector_exp(rows.scale * values[i] - log_sum);
    }
    std::fill(values + visible, values + rows.keys, 0.0F);
  }
}

STARLING_CLONES
void softmax_backward_rows(const ScoreRows& rows, const float* weights) {
  for (std::int64_t row = 0; row < rows.count; ++row) {
    float* __restrict__ values = rows.values + row * rows.keys;
    const float* __restrict__ weight = weights + row * rows.keys;
    const std::int64_t visible = rows.visible + row;
    float mean = 0.0F;
#pragma omp simd reduction(+ : mean)
    for (std::int64_t i = 0; i < visible; ++i) mean += weight[i] * values[i];
    for (std::int64_t i = 0; i < visible; ++i) {
      values[i] = rows.scale * weight[i] * (values[i] - mean);
    }
    std::fill(values + visible, values + rows.keys, 0.0F);
  }
}

}  // namespace starling::model
