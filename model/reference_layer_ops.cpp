#include "model/reference_layer_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace starling::model {

namespace {

// Where one head of one sequence begins in a packed qkv tensor; rows are packed_width() apart.
struct HeadOffsets {
  std::int64_t query, key, value;
};

HeadOffsets offsets_of(const HeadShape& shape, std::int64_t sequence, std::int64_t head) {
  const std::int64_t row = sequence * shape.tokens * shape.packed_width();
  const std::int64_t key_head = head / shape.group();
  return {row + head * shape.head_width, row + (shape.heads + key_head) * shape.head_width,
          row + (shape.heads + shape.kv_heads + key_head) * shape.head_width};
}

template <class Real>
Real dot(const Real* left, const Real* right, std::int64_t count) {
  Real sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += left[i] * right[i];
  return sum;
}

template <class Real>
void add_scaled(Real* target, Real scale, const Real* source, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) target[i] += scale * source[i];
}

template <class Real>
Real attention_scale(const HeadShape& shape) {
  return Real(1) / std::sqrt(static_cast<Real>(shape.head_width));
}

// One query: the log of its softmax denominator, and its output row.
template <class Real>
Real attend(const Attention<Real>& args, const HeadOffsets& at, std::int64_t position, Real* out) {
  const std::int64_t stride = args.shape.packed_width(), width = args.shape.head_width;
  const Real* query = args.qkv.data + at.query + position * stride;
  const Real scale = attention_scale<Real>(args.shape);
  const auto score = [&](std::int64_t key) {
    return scale * dot(query, args.qkv.data + at.key + key * stride, width);
  };
  Real largest = -std::numeric_limits<Real>::infinity();
  for (std::int64_t key = 0; key <= position; ++key) largest = std::max(largest, score(key));
  Real sum = 0;
  for (std::int64_t key = 0; key <= position; ++key) sum += std::exp(score(key) - largest);
  const Real log_sum = largest + std::log(sum);
  std::fill(out, out + width, Real(0));
  for (std::int64_t key = 0; key <= position; ++key) {
    add_scaled(out, std::exp(score(key) - log_sum), args.qkv.data + at.value + key * stride, width);
  }
  return log_sum;
}

// One query: adds to the gradients of its query row and of every key and value row up to it.
template <class Real>
void attend_backward(const AttentionBackward<Real>& args, const HeadOffsets& at,
                     std::int64_t position, const Real* out_grad, Real log_sum) {
  const std::int64_t stride = args.shape.packed_width(), width = args.shape.head_width;
  const Real* query = args.qkv.data + at.query + position * stride;
  Real* query_grad = args.qkv_grad.data + at.query + position * stride;
  const Real scale = attention_scale<Real>(args.shape);
  const auto weight = [&](std::int64_t key) {
    return std::exp(scale * dot(query, args.qkv.data + at.key + key * stride, width) - log_sum);
  };
  const auto weight_grad = [&](std::int64_t key) {
    return dot(out_grad, args.qkv.data + at.value + key * stride, width);
  };
  Real mean = 0;  // what the softmax's normalization takes off every weight's gradient
  for (std::int64_t key = 0; key <= position; ++key) mean += weight(key) * weight_grad(key);
  for (std::int64_t key = 0; key <= position; ++key) {
    const Real score_grad = scale * weight(key) * (weight_grad(key) - mean);
    add_scaled(query_grad, score_grad, args.qkv.data + at.key + key * stride, width);
    add_scaled(args.qkv_grad.data + at.key + key * stride, score_grad, query, width);
    add_scaled(args.qkv_grad.data + at.value + key * stride, weight(key), out_grad, width);
  }
}

}  // namespace

template <class Real>
void ReferenceLayerOps<Real>::zero(Lane, TensorView<Real> target) {
  std::fill(target.data, target.data + target.elements(), Real(0));
}

template <class Real>
void ReferenceLayerOps<Real>::embed(Lane, const Embed<Real>& args) {
  const std::int64_t width = args.out.columns();
  for (std::int64_t token = 0; token < args.out.rows(); ++token) {
    std::copy_n(args.weight.data + args.tokens.data[token] * width, width,
                args.out.data + token * width);
  }
}

template <class Real>
void ReferenceLayerOps<Real>::embed_backward(Lane, const EmbedBackward<Real>& args) {
  const std::int64_t width = args.out_grad.columns();
  for (std::int64_t token = 0; token < args.out_grad.rows(); ++token) {
    add_scaled(args.weight_grad.data + args.tokens.data[token] * width, Real(1),
               args.out_grad.data + token * width, width);
  }
}

template <class Real>
void ReferenceLayerOps<Real>::rms_norm(Lane, const RmsNorm<Real>& args) {
  const std::int64_t width = args.in.columns();
  for (std::int64_t token = 0; token < args.in.rows(); ++token) {
    const Real* in = args.in.data + token * width;
    Real* out = args.out.data + token * width;
    const Real mean = dot(in, in, width) / static_cast<Real>(width);
    const Real inverse = Real(1) / std::sqrt(mean + static_cast<Real>(args.epsilon));
    args.inverse_rms.data[token] = inverse;
    for (std::int64_t i = 0; i < width; ++i) out[i] = in[i] * inverse * args.gain.data[i];
  }
}

template <class Real>
void ReferenceLayerOps<Real>::rms_norm_backward(Lane, const RmsNormBackward<Real>& args) {
  const std::int64_t width = args.in.columns();
  for (std::int64_t token = 0; token < args.in.rows(); ++token) {
    const Real* in = args.in.data + token * width;
    const Real* out_grad = args.out_grad.data + token * width;
    Real* in_grad = args.in_grad.data + token * width;
    const Real inverse = args.inverse_rms.data[token];
    Real along = 0;  // mean of the gradient along the normalized input
    for (std::int64_t i = 0; i < width; ++i) {
      along += out_grad[i] * args.gain.data[i] * in[i] * inverse / static_cast<Real>(width);
    }
    for (std::int64_t i = 0; i < width; ++i) {
      in_grad[i] += inverse * (out_grad[i] * args.gain.data[i] - in[i] * inverse * along);
      args.gain_grad.data[i] += out_grad[i] * in[i] * inverse;
    }
  }
}

template <class Real>
void ReferenceLayerOps<Real>::linear(Lane, const Linear<Real>& args) {
  const std::int64_t inputs = args.in.columns(), outputs = args.out.columns();
  for (std::int64_t token = 0; token < args.in.rows(); ++token) {
    for (std::int64_t o = 0; o < outputs; ++o) {
      args.out.data[token * outputs + o] =
          dot(args.in.data + token * inputs, args.weight.data + o * inputs, inputs);
    }
  }
}

template <class Real>
void ReferenceLayerOps<Real>::linear_backward(Lane lane, const LinearBackward<Real>& args) {
  const std::int64_t inputs = args.in.columns(), outputs = args.out_grad.columns();
  zero(lane, args.in_grad);
  for (std::int64_t token = 0; token < args.in.rows(); ++token) {
    for (std::int64_t o = 0; o < outputs; ++o) {
      const Real gradient = args.out_grad.data[token * outputs + o];
      add_scaled(args.in_grad.data + token * inputs, gradient, args.weight.data + o * inputs,
                 inputs);
      add_scaled(args.weight_grad.data + o * inputs, gradient, args.in.data + token * inputs,
                 inputs);
    }
  }
}

template <class Real>
void ReferenceLayerOps<Real>::rope(Lane, const Rope<Real>& args) {
  const HeadShape& shape = args.shape;
  const std::int64_t half = shape.head_width / 2;
  const Real sign = args.rotation == Rotation::kForward ? Real(1) : Real(-1);
  for (std::int64_t token = 0; token < shape.sequences * shape.tokens; ++token) {
    const Real* cosines = args.cosines.data + (token % shape.tokens) * half;
    const Real* sines = args.sines.data + (token % shape.tokens) * half;
    for (std::int64_t head = 0; head < shape.heads + shape.kv_heads; ++head) {
      Real* pair = args.qkv.data + token * shape.packed_width() + head * shape.head_width;
      for (std::int64_t i = 0; i < half; ++i) {
        const Real first = pair[i], second = pair[i + half];
        pair[i] = first * cosines[i] - sign * second * sines[i];
        pair[i + half] = second * cosines[i] + sign * first * sines[i];
      }
    }
  }
}

template <class Real>
void ReferenceLayerOps<Real>::attention(Lane, const Attention<Real>& args) {
  const HeadShape& shape = args.shape;
  for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const HeadOffsets at = offsets_of(shape, sequence, head);
      for (std::int64_t t = args.first; t < shape.tokens; ++t) {
        const std::int64_t row = (sequence * shape.tokens + t) * shape.heads + head;
        args.log_sums.data[(sequence * shape.heads + head) * shape.tokens + t] =
            attend(args, at, t, args.out.data + row * shape.head_width);
      }
    }
  }
}

template <class Real>
void ReferenceLayerOps<Real>::attention_backward(Lane lane, const AttentionBackward<Real>& args) {
  const HeadShape& shape = args.shape;
  zero(lane, args.qkv_grad);
  for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const HeadOffsets at = offsets_of(shape, sequence, head);
      for (std::int64_t t = 0; t < shape.tokens; ++t) {
        const std::int64_t row = (sequence * shape.tokens + t) * shape.heads + head;
        attend_backward(args, at, t, args.out_grad.data + row * shape.head_width,
                        args.log_sums.data[(sequence * shape.heads + head) * shape.tokens + t]);
      }
    }
  }
}

template <class Real>
void ReferenceLayerOps<Real>::swiglu(Lane, const SwiGlu<Real>& args) {
  const std::int64_t ffn = args.out.columns();
  for (std::int64_t token = 0; token < args.out.rows(); ++token) {
    for (std::int64_t i = 0; i < ffn; ++i) {
      const Real gate = args.gate_up.data[token * 2 * ffn + i];
      const Real up = args.gate_up.data[token * 2 * ffn + ffn + i];
      args.out.data[token * ffn + i] = gate / (Real(1) + std::exp(-gate)) * up;
    }
  }
}

template <class Real>
void ReferenceLayerOps<Real>::swiglu_backward(Lane, const SwiGluBackward<Real>& args) {
  const std::int64_t ffn = args.out_grad.columns();
  for (std::int64_t token = 0; token < args.out_grad.rows(); ++token) {
    for (std::int64_t i = 0; i < ffn; ++i) {
      const std::int64_t at = token * 2 * ffn + i;
      const Real gate = args.gate_up.data[at], up = args.gate_up.data[at + ffn];
      const Real gradient = args.out_grad.data[token * ffn + i];
      const Real sigmoid = Real(1) / (Real(1) + std::exp(-gate));
      args.gate_up_grad.data[at] = gradient * up * sigmoid * (Real(1) + gate * (Real(1) - sigmoid));
      args.gate_up_grad.data[at + ffn] = gradient * gate * sigmoid;
    }
  }
}

template <class Real>
void ReferenceLayerOps<Real>::residual_add(Lane, const ResidualAdd<Real>& args) {
  for (std::int64_t i = 0; i < args.out.elements(); ++i) {
    args.out.data[i] = args.left.data[i] + args.right.data[i];
  }
}

template <class Real>
void ReferenceLayerOps<Real>::cross_entropy(Lane, const CrossEntropy<Real>& args) {
  const std::int64_t vocabulary = args.logits.columns();
  for (std::int64_t token = 0; token < args.logits.rows(); ++token) {
    Real* logits = args.logits.data + token * vocabulary;
    const std::int32_t target = args.targets.data[token];
    const Real largest = *std::max_element(logits, logits + vocabulary);
    Real sum = 0;
    for (std::int64_t i = 0; i < vocabulary; ++i) sum += std::exp(logits[i] - largest);
    const Real log_sum = largest + std::log(sum);
    args.losses.data[token] = log_sum - logits[target];
    for (std::int64_t i = 0; i < vocabulary; ++i) {
      logits[i] = args.scale * (std::exp(logits[i] - log_sum) - (i == target ? Real(1) : Real(0)));
    }
  }
}

template class ReferenceLayerOps<float>;
template class ReferenceLayerOps<double>;

}  // namespace starling::model
