#include "model/reference_layer_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace starling::model {

namespace {

template <class Real, class T>
std::vector<Real> converted(const TensorView<const T>& view) {
  std::vector<Real> values;
  for (std::int64_t i = 0; i < view.elements(); ++i) {
    if constexpr (std::is_same_v<T, bf16>) {
      values.push_back(static_cast<Real>(to_float(view.data[i])));
    } else {
      values.push_back(static_cast<Real>(view.data[i]));
    }
  }
  return values;
}

template <class Real>
std::vector<Real> values_of(const ConstTypedTensor& tensor) {
  if (tensor.dtype == DType::kBf16) return converted<Real>(tensor.as<bf16>());
  if (tensor.dtype == DType::kF32) return converted<Real>(tensor.as<float>());
  return converted<Real>(tensor.as<double>());
}

template <class Real>
void store(const TypedTensor& tensor, const std::vector<Real>& values) {
  STARLING_ASSERT(std::ssize(values) == tensor.elements());
  const auto round = [&](auto* to, const auto& rounded) {
    for (std::size_t i = 0; i < values.size(); ++i) to[i] = rounded(values[i]);
  };
  if (tensor.dtype == DType::kBf16) {
    round(tensor.as<bf16>().data, [](Real value) { return to_bf16(static_cast<float>(value)); });
  } else if (tensor.dtype == DType::kF32) {
    round(tensor.as<float>().data, [](Real value) { return static_cast<float>(value); });
  } else {
    round(tensor.as<double>().data, [](Real value) { return static_cast<double>(value); });
  }
}

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
Real attend(const HeadShape& shape, const Real* qkv, const HeadOffsets& at, std::int64_t position,
            Real* out) {
  const std::int64_t stride = shape.packed_width(), width = shape.head_width;
  const Real* query = qkv + at.query + position * stride;
  const Real scale = attention_scale<Real>(shape);
  const auto score = [&](std::int64_t key) {
    return scale * dot(query, qkv + at.key + key * stride, width);
  };
  Real largest = -std::numeric_limits<Real>::infinity();
  for (std::int64_t key = 0; key <= position; ++key) largest = std::max(largest, score(key));
  Real sum = 0;
  for (std::int64_t key = 0; key <= position; ++key) sum += std::exp(score(key) - largest);
  const Real log_sum = largest + std::log(sum);
  std::fill(out, out + width, Real(0));
  for (std::int64_t key = 0; key <= position; ++key) {
    add_scaled(out, std::exp(score(key) - log_sum), qkv + at.value + key * stride, width);
  }
  return log_sum;
}

// One query: adds to the gradients of its query row and of every key and value row up to it.
template <class Real>
void attend_backward(const HeadShape& shape, const Real* qkv, Real* qkv_grad, const HeadOffsets& at,
                     std::int64_t position, const Real* out_grad, Real log_sum) {
  const std::int64_t stride = shape.packed_width(), width = shape.head_width;
  const Real* query = qkv + at.query + position * stride;
  Real* query_grad = qkv_grad + at.query + position * stride;
  const Real scale = attention_scale<Real>(shape);
  const auto weight = [&](std::int64_t key) {
    return std::exp(scale * dot(query, qkv + at.key + key * stride, width) - log_sum);
  };
  const auto weight_grad = [&](std::int64_t key) {
    return dot(out_grad, qkv + at.value + key * stride, width);
  };
  Real mean = 0;  // what the softmax's normalization takes off every weight's gradient
  for (std::int64_t key = 0; key <= position; ++key) mean += weight(key) * weight_grad(key);
  for (std::int64_t key = 0; key <= position; ++key) {
    const Real score_grad = scale * weight(key) * (weight_grad(key) - mean);
    add_scaled(query_grad, score_grad, qkv + at.key + key * stride, width);
    add_scaled(qkv_grad + at.key + key * stride, score_grad, query, width);
    add_scaled(qkv_grad + at.value + key * stride, weight(key), out_grad, width);
  }
}

// sign 1 turns queries and keys, -1 turns them back.
template <class Real>
void turn(std::vector<Real>& qkv, const Rotations<Real>& by, const HeadShape& shape, Real sign) {
  const std::int64_t half = shape.head_width / 2;
  for (std::int64_t token = 0; token < shape.sequences * shape.tokens; ++token) {
    const Real* cosines = by.cosines.data + (token % shape.tokens) * half;
    const Real* sines = by.sines.data + (token % shape.tokens) * half;
    for (std::int64_t head = 0; head < shape.heads + shape.kv_heads; ++head) {
      Real* pair = qkv.data() + token * shape.packed_width() + head * shape.head_width;
      for (std::int64_t i = 0; i < half; ++i) {
        const Real first = pair[i], second = pair[i + half];
        pair[i] = first * cosines[i] - sign * second * sines[i];
        pair[i + half] = second * cosines[i] + sign * first * sines[i];
      }
    }
  }
}

// in * weight^T
template <class Real>
std::vector<Real> product(const ConstTypedTensor& in, const TensorView<const Real>& weight) {
  const std::vector<Real> left = values_of<Real>(in);
  const std::int64_t inputs = in.columns();
  std::vector<Real> out;
  for (std::int64_t token = 0; token < in.rows(); ++token) {
    for (std::int64_t o = 0; o < weight.rows(); ++o) {
      out.push_back(dot(left.data() + token * inputs, weight.data + o * inputs, inputs));
    }
  }
  return out;
}

// out_grad * weight
template <class Real>
std::vector<Real> product_backward(const ConstTypedTensor& out_grad,
                                   const TensorView<const Real>& weight) {
  const std::vector<Real> gradients = values_of<Real>(out_grad);
  const std::int64_t outputs = weight.rows(), inputs = weight.columns();
  std::vector<Real> in_grad(static_cast<std::size_t>(out_grad.rows() * inputs));
  for (std::int64_t token = 0; token < out_grad.rows(); ++token) {
    for (std::int64_t o = 0; o < outputs; ++o) {
      add_scaled(in_grad.data() + token * inputs,
                 gradients[static_cast<std::size_t>(token * outputs + o)], weight.data + o * inputs,
                 inputs);
    }
  }
  return in_grad;
}

// weight_grad += out_grad^T * in
template <class Real>
void add_weight_grad(const TensorView<Real>& weight_grad, const ConstTypedTensor& out_grad,
                     const ConstTypedTensor& in) {
  const std::vector<Real> gradients = values_of<Real>(out_grad), values = values_of<Real>(in);
  const std::int64_t outputs = weight_grad.rows(), inputs = weight_grad.columns();
  for (std::int64_t token = 0; token < in.rows(); ++token) {
    for (std::int64_t o = 0; o < outputs; ++o) {
      add_scaled(weight_grad.data + o * inputs,
                 gradients[static_cast<std::size_t>(token * outputs + o)],
                 values.data() + token * inputs, inputs);
    }
  }
}

// silu(gate) * up of every token.
template <class Real>
std::vector<Real> gated_of(const std::vector<Real>& gate_up, std::int64_t ffn) {
  std::vector<Real> gated;
  for (auto token = gate_up.begin(); token != gate_up.end(); token += 2 * ffn) {
    for (std::int64_t i = 0; i < ffn; ++i) {
      gated.push_back(token[i] / (Real(1) + std::exp(-token[i])) * token[ffn + i]);
    }
  }
  return gated;
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
  std::vector<Real> out;
  for (std::int64_t token = 0; token < args.in.rows(); ++token) {
    const Real* in = args.in.data + token * width;
    const Real mean = dot(in, in, width) / static_cast<Real>(width);
    const Real inverse = Real(1) / std::sqrt(mean + static_cast<Real>(args.epsilon));
    args.inverse_rms.data[token] = inverse;
    for (std::int64_t i = 0; i < width; ++i) out.push_back(in[i] * inverse * args.gain.data[i]);
  }
  store(args.out, out);
}

template <class Real>
void ReferenceLayerOps<Real>::rms_norm_backward(Lane lane, const RmsNormBackward<Real>& args) {
  if (!args.adds) zero(lane, args.gain_grad);
  const std::int64_t width = args.in.columns();
  const std::vector<Real> gradients = values_of<Real>(args.out_grad);
  for (std::int64_t token = 0; token < args.in.rows(); ++token) {
    const Real* in = args.in.data + token * width;
    const Real* out_grad = gradients.data() + token * width;
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
  store(args.in_grad_rounded, converted<Real, Real>(args.in_grad));
}

template <class Real>
void ReferenceLayerOps<Real>::linear(Lane, const Linear<Real>& args) {
  store(args.out, product(args.in, args.weight));
}

template <class Real>
void ReferenceLayerOps<Real>::linear_backward(Lane lane, const LinearBackward<Real>& args) {
  if (!args.adds) zero(lane, args.weight_grad);
  store(args.in_grad, product_backward(args.out_grad, args.weight));
  add_weight_grad(args.weight_grad, args.out_grad, args.in);
}

template <class Real>
void ReferenceLayerOps<Real>::linear_residual(Lane, const LinearResidual<Real>& args) {
  std::vector<Real> out = product(args.in, args.weight);
  add_scaled(out.data(), Real(1), args.residual.data, args.residual.elements());
  store<Real>(args.out, out);
}

template <class Real>
void ReferenceLayerOps<Real>::linear_rope(Lane, const LinearRope<Real>& args) {
  std::vector<Real> qkv = product(args.in, args.weight);
  turn(qkv, args.rotations, args.shape, Real(1));
  store(args.qkv, qkv);
}

template <class Real>
void ReferenceLayerOps<Real>::attention(Lane, const Attention<Real>& args) {
  const HeadShape& shape = args.shape;
  const std::vector<Real> qkv = values_of<Real>(args.qkv);
  std::vector<Real> out = values_of<Real>(args.out);
  for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const HeadOffsets at = offsets_of(shape, sequence, head);
      for (std::int64_t t = args.first; t < shape.tokens; ++t) {
        const std::int64_t row = (sequence * shape.tokens + t) * shape.heads + head;
        args.log_sums.data[(sequence * shape.heads + head) * shape.tokens + t] =
            attend(shape, qkv.data(), at, t, out.data() + row * shape.head_width);
      }
    }
  }
  store(args.out, out);
}

template <class Real>
void ReferenceLayerOps<Real>::attention_backward(Lane, const AttentionBackward<Real>& args) {
  const HeadShape& shape = args.shape;
  const std::vector<Real> qkv = values_of<Real>(args.qkv),
                          out_grad = values_of<Real>(args.out_grad);
  std::vector<Real> qkv_grad(qkv.size());
  for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const HeadOffsets at = offsets_of(shape, sequence, head);
      for (std::int64_t t = 0; t < shape.tokens; ++t) {
        const std::int64_t row = (sequence * shape.tokens + t) * shape.heads + head;
        attend_backward(shape, qkv.data(), qkv_grad.data(), at, t,
                        out_grad.data() + row * shape.head_width,
                        args.log_sums.data[(sequence * shape.heads + head) * shape.tokens + t]);
      }
    }
  }
  turn(qkv_grad, args.rotations, shape, Real(-1));
  store(args.qkv_grad, qkv_grad);
}

template <class Real>
void ReferenceLayerOps<Real>::linear_swiglu(Lane, const LinearSwiGlu<Real>& args) {
  store(args.gate_up, product(args.in, args.weight));
  store(args.gated, gated_of(values_of<Real>(args.gate_up), args.gated.columns()));
}

template <class Real>
void ReferenceLayerOps<Real>::swiglu_linear_backward(Lane lane,
                                                     const SwiGluLinearBackward<Real>& args) {
  if (!args.adds) zero(lane, args.weight_grad);
  const std::int64_t ffn = args.gated.columns();
  const std::vector<Real> gate_up = values_of<Real>(args.gate_up);
  std::vector<Real> gated_grad = product_backward(args.out_grad, args.weight);
  std::vector<Real> gate_up_grad(gate_up.size());
  for (std::int64_t token = 0; token < args.gated.rows(); ++token) {
    for (std::int64_t i = 0; i < ffn; ++i) {
      const auto at = static_cast<std::size_t>(token * 2 * ffn + i);
      const auto up_at = at + static_cast<std::size_t>(ffn);
      const Real gate = gate_up[at], up = gate_up[up_at];
      const Real gradient = gated_grad[static_cast<std::size_t>(token * ffn + i)];
      const Real sigmoid = Real(1) / (Real(1) + std::exp(-gate));
      gate_up_grad[at] = gradient * up * sigmoid * (Real(1) + gate * (Real(1) - sigmoid));
      gate_up_grad[up_at] = gradient * gate * sigmoid;
    }
  }
  store(args.gate_up_grad, gate_up_grad);
  store(args.gated, gated_of(gate_up, ffn));
  add_weight_grad(args.weight_grad, args.out_grad, args.gated);
}

template <class Real>
void ReferenceLayerOps<Real>::cross_entropy(Lane, const CrossEntropy<Real>& args) {
  const std::int64_t vocabulary = args.logits.columns();
  std::vector<Real> gradient;
  for (std::int64_t token = 0; token < args.logits.rows(); ++token) {
    const Real* logits = args.logits.data + token * vocabulary;
    const std::int32_t target = args.targets.data[token];
    const Real largest = *std::max_element(logits, logits + vocabulary);
    Real sum = 0;
    for (std::int64_t i = 0; i < vocabulary; ++i) sum += std::exp(logits[i] - largest);
    const Real log_sum = largest + std::log(sum);
    args.losses.data[token] = log_sum - logits[target];
    for (std::int64_t i = 0; i < vocabulary; ++i) {
      gradient.push_back(args.scale *
                         (std::exp(logits[i] - log_sum) - (i == target ? Real(1) : Real(0))));
    }
  }
  store(args.gradient, gradient);
}

template class ReferenceLayerOps<float>;
template class ReferenceLayerOps<double>;

}  // namespace starling::model
