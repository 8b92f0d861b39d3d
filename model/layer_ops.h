// LayerOps: every operation a Llama is made of, each forward next to its backward, enqueued on a
// lane of the device that executes them. Operands have names, so two tensors cannot be swapped in
// silence: ops.linear(lane, {.out = y, .in = x, .weight = w}).
//
// Shapes: tokens = all tokens of all sequences of the batch, sequence after sequence. A gradient is
// "set" (old contents lost) or "added to", as its comment says. Outputs never overlap inputs unless
// the comment says "in place". reserve() comes first and may fail; nothing here fails or allocates
// after it: shapes are the caller's duty and are asserted. Thread: the trainer's. Results are
// deterministic: the same call gives the same bits, for a fixed number of threads; on a GPU, whose
// products may be chosen by trying, within one process.
//
// Real is float for training; the reference is also instantiated for double, where finite
// differences can judge it (reference_layer_ops.h). Weights, the residual stream, losses and their
// gradients are Real. What lies between two matrix products is a TypedTensor of the type that
// activations() says, so that it may be rounded where it is stored; so is every gradient that a
// product's backward is given. Sums are in Real.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/bf16.h"
#include "base/device.h"
#include "base/result.h"
#include "model/tensor.h"

namespace starling::model {

// How the rows of a packed qkv tensor are read: (heads + 2 * kv_heads) * head_width values a token,
// the queries first, then the keys, then the values. Query head h reads key head
// h / (heads / kv_heads).
struct HeadShape {
  std::int64_t sequences = 1, tokens = 1;  // tokens of each sequence
  std::int64_t heads = 1, kv_heads = 1, head_width = 2;

  std::int64_t packed_width() const { return (heads + 2 * kv_heads) * head_width; }
  std::int64_t group() const { return heads / kv_heads; }
};

// The largest of what calls will bring: what operations need memory of their own for.
struct StepShape {
  HeadShape longest;      // one sequence
  std::int64_t rows = 1;  // tokens of a batch whose gradients are computed
  std::int64_t width = 1, parameters = 1;
};

template <class Real = float>
struct Embed {
  TensorView<Real> out;                   // (tokens, width)
  TensorView<const Real> weight;          // (vocabulary, width)
  TensorView<const std::int32_t> tokens;  // (tokens)
};
template <class Real = float>
struct EmbedBackward {
  TensorView<Real> weight_grad;           // (vocabulary, width), added to
  TensorView<const Real> out_grad;        // (tokens, width)
  TensorView<const std::int32_t> tokens;  // (tokens)
};

// out = in / sqrt(mean(in^2) + epsilon) * gain (Zhang, Sennrich, "Root Mean Square Layer
// Normalization", 2019, equation 4).
template <class Real = float>
struct RmsNorm {
  TypedTensor out;               // (tokens, width)
  TensorView<Real> inverse_rms;  // (tokens)
  TensorView<const Real> in;     // (tokens, width)
  TensorView<const Real> gain;   // (width)
  float epsilon = 0;
};
template <class Real = float>
struct RmsNormBackward {
  TensorView<Real> in_grad;  // (tokens, width), added to: the residual's is there already
  // (tokens, width), set: the sum of in_grad, rounded as an activation. Of Real: in_grad itself.
  TypedTensor in_grad_rounded;
  TensorView<Real> gain_grad;          // (width), added to
  ConstTypedTensor out_grad;           // (tokens, width)
  TensorView<const Real> in;           // (tokens, width)
  TensorView<const Real> gain;         // (width)
  TensorView<const Real> inverse_rms;  // (tokens)
  bool adds = true;                    // false: gain_grad is set
};

// out = in * weight^T
template <class Real = float>
struct Linear {
  TypedTensor out;                // (tokens, outputs)
  ConstTypedTensor in;            // (tokens, inputs)
  TensorView<const Real> weight;  // (outputs, inputs)
};
template <class Real = float>
struct LinearBackward {
  TypedTensor in_grad;            // (tokens, inputs), set
  TensorView<Real> weight_grad;   // (outputs, inputs), added to
  ConstTypedTensor out_grad;      // (tokens, outputs)
  ConstTypedTensor in;            // (tokens, inputs)
  TensorView<const Real> weight;  // (outputs, inputs)
  bool adds = true;               // false: weight_grad is set
};

// out = residual + in * weight^T: a branch comes back to the residual stream, whose gradient goes
// both ways as it is. Its backward is that of Linear.
template <class Real = float>
struct LinearResidual {
  TensorView<Real> out;             // (tokens, outputs)
  TensorView<const Real> residual;  // (tokens, outputs)
  ConstTypedTensor in;              // (tokens, inputs)
  TensorView<const Real> weight;    // (outputs, inputs)
};

// LinearResidual, and the RmsNorm of its sum. What the product gives may be rounded as an
// activation before it is added.
template <class Real = float>
struct LinearResidualNorm {
  TensorView<Real> out;             // (tokens, outputs): the sum
  TypedTensor normed;               // (tokens, outputs)
  TensorView<Real> inverse_rms;     // (tokens)
  TensorView<const Real> residual;  // (tokens, outputs)
  ConstTypedTensor in;              // (tokens, inputs)
  TensorView<const Real> weight;    // (outputs, inputs)
  TensorView<const Real> gain;      // (outputs)
  float epsilon = 0;
};

// Cosines and sines of rotary positions (Su et al., "RoFormer", 2021, equation 34). The pairs that
// they turn are (i, i + head_width / 2), as in Hugging Face's checkpoints.
template <class Real = float>
struct Rotations {
  TensorView<const Real> cosines, sines;  // (positions, head_width / 2)
};

// qkv = in * weight^T, with queries and keys turned by the positions of their tokens.
template <class Real = float>
struct LinearRope {
  TypedTensor qkv;                // (tokens, packed_width)
  ConstTypedTensor in;            // (tokens, inputs)
  TensorView<const Real> weight;  // (packed_width, inputs)
  Rotations<Real> rotations;
  HeadShape shape;
};

// Causal softmax(q k^T / sqrt(head_width)) v, head by head (Vaswani et al., "Attention Is All You
// Need", 2017, equation 1; grouped queries: Ainslie et al., "GQA", 2023). Only the logarithm of
// each softmax denominator is kept: the backward computes the weights again (Dao et al.,
// "FlashAttention", 2022, section 3.1). Its gradients are those of queries and keys before they
// were turned: Rotations' backward, the transposed rotation, is a part of it.
template <class Real = float>
struct Attention {
  TypedTensor out;            // (tokens, heads * head_width)
  TensorView<Real> log_sums;  // (sequences, heads, tokens of a sequence)
  ConstTypedTensor qkv;       // (tokens, packed_width)
  HeadShape shape;
  // The queries of each sequence before this one are left out, and their rows of `out` as they are.
  std::int64_t first = 0;
};
template <class Real = float>
struct AttentionBackward {
  TypedTensor qkv_grad;             // (tokens, packed_width), set
  ConstTypedTensor out_grad;        // (tokens, heads * head_width)
  ConstTypedTensor out;             // (tokens, heads * head_width): what the forward gave
  TensorView<const Real> log_sums;  // (sequences, heads, tokens of a sequence)
  ConstTypedTensor qkv;             // (tokens, packed_width)
  Rotations<Real> rotations;
  HeadShape shape;
};

// gate_up = in * weight^T, and gated = silu(gate) * up of it as it is stored, silu(z) = z / (1 +
// exp(-z)) (Shazeer, "GLU Variants Improve Transformer", 2020, equation 6).
template <class Real = float>
struct LinearSwiGlu {
  TypedTensor gate_up;            // (tokens, 2 * ffn): the gates of a token, then its ups
  TypedTensor gated;              // (tokens, ffn)
  ConstTypedTensor in;            // (tokens, inputs)
  TensorView<const Real> weight;  // (2 * ffn, inputs)
};
// Backward of out = gated * weight^T and of the SwiGLU before it.
template <class Real = float>
struct SwiGluLinearBackward {
  TypedTensor gate_up_grad;       // (tokens, 2 * ffn), set
  TypedTensor gated;              // (tokens, ffn), set: computed again
  TensorView<Real> weight_grad;   // (outputs, ffn), added to
  ConstTypedTensor out_grad;      // (tokens, outputs)
  ConstTypedTensor gate_up;       // (tokens, 2 * ffn)
  TensorView<const Real> weight;  // (outputs, ffn)
  bool adds = true;               // false: weight_grad is set
};

// losses = -log softmax(logits)[target]; gradient = scale * d(sum of losses) / d(logits). The
// logits are lost, wherever the gradient is; who wants losses alone gives it room all the same.
template <class Real = float>
struct CrossEntropy {
  TypedTensor gradient;                    // (tokens, vocabulary), set. Of Real: or in place
  TensorView<Real> losses;                 // (tokens)
  TensorView<Real> logits;                 // (tokens, vocabulary), lost
  TensorView<const std::int32_t> targets;  // (tokens)
  Real scale = 1;
};

// What the calls of LayerOpsOf::repeat() differ in, if they differ in anything.
using RepeatKey = std::array<std::uint64_t, 8>;

template <class Real>
class LayerOpsOf {
 public:
  LayerOpsOf() = default;
  LayerOpsOf(const LayerOpsOf&) = delete;
  LayerOpsOf& operator=(const LayerOpsOf&) = delete;
  virtual ~LayerOpsOf() = default;

  // What lies between two matrix products is of this type.
  virtual DType activations() const = 0;

  // Bytes of the device's memory that reserve() takes, and what is there from the start. Any time.
  virtual std::size_t scratch_bytes(const StepShape& largest) const = 0;
  // Start-up only, before any operation: makes room for all that is no larger. Again: for another
  // shape. kExhausted names the setting to lower. kInvalidConfig: no amount of memory would make
  // this shape work.
  virtual Status reserve(const StepShape& largest) = 0;
  // The weights of what follows are parts of `weights`, and stay as they are until the next call.
  // Who multiplies other numbers than Real makes a copy of them here.
  virtual void use_weights(Lane /*lane*/, DeviceSpan<const Real> /*weights*/) {}
  // Where that copy is, so that who changes `weights` can change it along with them, both on the
  // lane: to what they round to in bf16. Empty if the last use_weights() named others, or if there
  // is no copy.
  virtual DeviceSpan<bf16> rounded_weights(DeviceSpan<const Real> /*weights*/) { return {}; }
  // Calls `body`, which only enqueues on `lane`, and for the same key always the same: who can
  // keeps what it enqueued, and next time enqueues that without a call. Not use_weights().
  virtual void repeat(Lane /*lane*/, const RepeatKey& /*key*/, const std::function<void()>& body) {
    body();
  }
  // Start-up only. Whether operations choose among ways of doing the same by trying them, which
  // they do while they rehearse: each call may then be done more than once, also those that add.
  virtual bool rehearses() const { return false; }
  virtual void rehearse(bool /*on*/) {}

  virtual void zero(Lane lane, TensorView<Real> target) = 0;
  virtual void embed(Lane lane, const Embed<Real>& args) = 0;
  virtual void embed_backward(Lane lane, const EmbedBackward<Real>& args) = 0;
  virtual void rms_norm(Lane lane, const RmsNorm<Real>& args) = 0;
  virtual void rms_norm_backward(Lane lane, const RmsNormBackward<Real>& args) = 0;
  virtual void linear(Lane lane, const Linear<Real>& args) = 0;
  virtual void linear_backward(Lane lane, const LinearBackward<Real>& args) = 0;
  virtual void linear_residual(Lane lane, const LinearResidual<Real>& args) = 0;
  virtual void linear_residual_norm(Lane lane, const LinearResidualNorm<Real>& args) {
    linear_residual(
        lane, {.out = args.out, .residual = args.residual, .in = args.in, .weight = args.weight});
    rms_norm(lane, {.out = args.normed,
                    .inverse_rms = args.inverse_rms,
                    .in = args.out,
                    .gain = args.gain,
                    .epsilon = args.epsilon});
  }
  virtual void linear_rope(Lane lane, const LinearRope<Real>& args) = 0;
  virtual void attention(Lane lane, const Attention<Real>& args) = 0;
  virtual void attention_backward(Lane lane, const AttentionBackward<Real>& args) = 0;
  virtual void linear_swiglu(Lane lane, const LinearSwiGlu<Real>& args) = 0;
  virtual void swiglu_linear_backward(Lane lane, const SwiGluLinearBackward<Real>& args) = 0;
  virtual void cross_entropy(Lane lane, const CrossEntropy<Real>& args) = 0;
};

using LayerOps = LayerOpsOf<float>;

}  // namespace starling::model
