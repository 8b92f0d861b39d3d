#include "cuda/layer_ops.cuh"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "cuda/attention.cuh"
#include "cuda/block_memory.h"
#include "cuda/cross_entropy_kernels.cuh"
#include "cuda/element_kernels.cuh"
#include "cuda/embed_backward_kernels.cuh"
#include "cuda/gpu_memory.h"
#include "cuda/norms.cuh"
#include "cuda/packs.cuh"
#include "cuda/scratch.h"

namespace starling::cuda {

namespace {

using model::ConstTensor;
using model::ConstTypedTensor;
using model::DType;
using model::Shape;
using model::Tensor;
using model::TypedTensor;

class KernelLayerOps final : public model::LayerOps {
 public:
  KernelLayerOps(LayerOpsParts parts, DType activations)
      : parts_(std::move(parts)),
        activations_(activations),
        attention_(*parts_.device, parts_.warpgroups),
        norms_(*parts_.device),
        rounded_weight_(*parts_.device, "a rounded weight"),
        rounded_weights_(*parts_.device, "the weights in bf16") {
    STARLING_ASSERT(activations != DType::kF64);
  }

  DType activations() const override { return activations_; }
  std::size_t scratch_bytes(const model::StepShape& largest) const override {
    return scratch_sizes(activations_, largest).sum() + parts_.products->workspace_bytes();
  }
  Status reserve(const model::StepShape& largest) override;
  void use_weights(Lane lane, DeviceSpan<const float> weights) override {
    if (activations_ != DType::kBf16) return;
    weights_ = weights;
    round(lane, rounded_weights_.at_least<bf16>(static_cast<std::int64_t>(weights.size)),
          weights.data, {1, static_cast<std::int64_t>(weights.size)});
  }
  DeviceSpan<bf16> rounded_weights(DeviceSpan<const float> weights) override {
    const bool are_held = weights.data == weights_.data && weights.size == weights_.size;
    if (!are_held) return {};
    return {rounded_weights_.at_least<bf16>(0), weights.size};
  }

  void repeat(Lane lane, const model::RepeatKey& key, const std::function<void()>& body) override {
    if (parts_.repeats == nullptr) return body();
    if (const unsigned moves = scratch_moves(); moves != moves_known_) {
      parts_.repeats->forget();
      moves_known_ = moves;
    }
    parts_.repeats->run(lane, key, body);
  }
  bool rehearses() const override { return parts_.products->rehearses(); }
  void rehearse(bool on) override { parts_.products->rehearse(on); }

  void zero(Lane lane, Tensor target) override {
    zero_bytes(stream(lane), target.data,
               static_cast<std::size_t>(target.elements()) * sizeof(float), "zero");
  }

  void embed(Lane lane, const model::Embed<>& args) override {
    STARLING_ASSERT(args.weight.columns() == args.out.columns());
    STARLING_ASSERT(args.tokens.elements() == args.out.rows());
    const Elements of{args.out.rows(), args.out.columns()};
    with_count(in_packs(of.columns, {args.out.data, args.weight.data}), [&](auto count) {
      launch_elements<count>(lane, "embed", of, embed_kernel<count>, args.out.data,
                             args.weight.data, args.tokens.data, of);
    });
  }

  void embed_backward(Lane lane, const model::EmbedBackward<>& args) override;
  void rms_norm(Lane lane, const model::RmsNorm<>& args) override {
    norms_.forward(stream(lane), args);
  }
  void rms_norm_backward(Lane lane, const model::RmsNormBackward<>& args) override {
    const bool is_itself = args.in_grad_rounded.data == static_cast<const void*>(args.in_grad.data);
    STARLING_ASSERT(is_itself == (activations_ == DType::kF32));
    norms_.backward(stream(lane), args);
  }

  void linear(Lane lane, const model::Linear<>& args) override {
    multiply(lane, forward(lane, args.out, args.in, args.weight));
  }
  void linear_backward(Lane lane, const model::LinearBackward<>& args) override {
    add_weight_grad(lane, args.weight_grad, args.out_grad, args.in, args.adds);
    multiply(lane, backward(lane, args.in_grad, args.out_grad, args.weight));
  }
  void linear_residual(Lane lane, const model::LinearResidual<>& args) override {
    STARLING_ASSERT(args.out.shape == args.residual.shape);
    Product product = forward(lane, args.out, args.in, args.weight);
    product.addend = args.residual.data;
    multiply(lane, product);
  }
  void linear_residual_norm(Lane lane, const model::LinearResidualNorm<>& args) override;
  void linear_rope(Lane lane, const model::LinearRope<>& args) override {
    check(args.shape, args.qkv);
    multiply(lane, forward(lane, args.qkv, args.in, args.weight));
    turn(lane, args);
  }

  void attention(Lane lane, const model::Attention<>& args) override {
    check(args.shape, args.qkv);
    check(args.shape, args.out, args.log_sums);
    attention_.forward(stream(lane), args);
  }
  void attention_backward(Lane lane, const model::AttentionBackward<>& args) override {
    check(args.shape, args.qkv);
    check(args.shape, args.qkv_grad);
    check(args.shape, args.out, args.log_sums);
    check(args.shape, args.out_grad, args.log_sums);
    check(args.rotations, args.shape);
    attention_.backward(stream(lane), args);
  }

  void linear_swiglu(Lane lane, const model::LinearSwiGlu<>& args) override;
  void swiglu_linear_backward(Lane lane, const model::SwiGluLinearBackward<>& args) override;
  void cross_entropy(Lane lane, const model::CrossEntropy<>& args) override;

 private:
  Stream stream(Lane lane) const { return parts_.stream(lane); }
  unsigned scratch_moves() {
    return rounded_weight_.moves() + rounded_weights_.moves() + norms_.scratch().moves() +
           attention_.scratch().moves();
  }

  template <int kCount, class... Params, class... Args>
  void launch_elements(Lane lane, const char* operation, const Elements& of,
                       void (*kernel)(Params...), const Args&... args) const {
    launch({.stream = stream(lane),
            .operation = operation,
            .blocks = {blocks_for(of.rows * (of.columns / kCount), kElementThreads), 1, 1},
            .threads = kElementThreads},
           kernel, args...);
  }

  void round(Lane lane, bf16* target, const float* source, const Elements& of) const {
    with_count(in_packs(of.columns, {target, source}), [&](auto count) {
      launch_elements<count>(lane, "rounding", of, convert_kernel<count>, target, source, of);
    });
  }
  // What a product may multiply: of the type of the activations.
  ConstTypedTensor weight_operand(Lane lane, const ConstTensor& weight) {
    if (activations_ == DType::kF32) return weight;
    const std::less<const float*> before;
    const bool is_held = weights_.size > 0 && !before(weight.data, weights_.data) &&
                         before(weight.data, weights_.data + weights_.size);
    bf16* rounded = is_held ? rounded_weights_.at_least<bf16>(0) + (weight.data - weights_.data)
                            : rounded_weight_.at_least<bf16>(weight.elements());
    if (!is_held) round(lane, rounded, weight.data, {weight.rows(), weight.columns()});
    return model::TensorView<const bf16>{rounded, weight.shape};
  }

  Product forward(Lane lane, const TypedTensor& out, const ConstTypedTensor& in,
                  const ConstTensor& weight) {
    STARLING_ASSERT(in.rows() == out.rows());
    STARLING_ASSERT((weight.shape == Shape{out.columns(), in.columns()}));
    return {out, {in}, {weight_operand(lane, weight)}};
  }
  Product backward(Lane lane, const TypedTensor& in_grad, const ConstTypedTensor& out_grad,
                   const ConstTensor& weight) {
    STARLING_ASSERT(out_grad.dtype == activations_);
    STARLING_ASSERT(in_grad.rows() == out_grad.rows());
    STARLING_ASSERT((weight.shape == Shape{out_grad.columns(), in_grad.columns()}));
    return {in_grad, {out_grad}, {weight_operand(lane, weight), true}};
  }
  void add_weight_grad(Lane lane, const Tensor& weight_grad, const ConstTypedTensor& out_grad,
                       const ConstTypedTensor& in, bool adds) {
    STARLING_ASSERT(out_grad.rows() == in.rows());
    STARLING_ASSERT((weight_grad.shape == Shape{out_grad.columns(), in.columns()}));
    const float* before = adds ? weight_grad.data : nullptr;
    multiply(lane, {weight_grad, {out_grad, true}, {in, true}, before});
  }
  void multiply(Lane lane, const Product& product) { parts_.products->multiply(lane, product); }

  void turn(Lane lane, const model::LinearRope<>& args) const;

  static void check(const model::HeadShape& shape, const ConstTypedTensor& qkv) {
    STARLING_ASSERT(qkv.rows() == shape.sequences * shape.tokens);
    STARLING_ASSERT(qkv.columns() == shape.packed_width());
  }
  static void check(const model::HeadShape& shape, const ConstTypedTensor& out,
                    const ConstTensor& log_sums) {
    STARLING_ASSERT(out.rows() == shape.sequences * shape.tokens);
    STARLING_ASSERT(out.columns() == shape.heads * shape.head_width);
    STARLING_ASSERT(log_sums.elements() == shape.sequences * shape.heads * shape.tokens);
  }
  static void check(const model::Rotations<>& rotations, const model::HeadShape& shape) {
    STARLING_ASSERT(rotations.cosines.rows() >= shape.tokens);
    STARLING_ASSERT(rotations.cosines.columns() == shape.head_width / 2);
    STARLING_ASSERT(rotations.cosines.shape == rotations.sines.shape);
  }

  LayerOpsParts parts_;
  const DType activations_;
  CudaAttention attention_;
  CudaNorms norms_;
  Scratch rounded_weight_, rounded_weights_;
  DeviceSpan<const float> weights_;  // those that rounded_weights_ has
  unsigned moves_known_ = 0;         // of scratch, when what repeats was kept
};

// First nothing, so that a smaller shape finds room where a larger one found none.
Status KernelLayerOps::reserve(const model::StepShape& largest) {
  if (Status fits = judge_block_memory(largest, parts_.shared_bytes_max); !fits.ok()) return fits;
  weights_ = {};
  for (const ScratchSizes& sizes : {ScratchSizes(), scratch_sizes(activations_, largest)}) {
    const std::pair<Scratch&, std::size_t> parts[] = {{rounded_weights_, sizes.weights},
                                                      {norms_.scratch(), sizes.gains},
                                                      {attention_.scratch(), sizes.attention}};
    for (const auto& [scratch, bytes] : parts) {
      if (Status room = scratch.reserve(bytes); !room.ok()) return room;
    }
  }
  return ok_status();
}

void KernelLayerOps::embed_backward(Lane lane, const model::EmbedBackward<>& args) {
  constexpr std::int64_t kBlocks = 1024;  // of the vocabulary, about
  STARLING_ASSERT(args.weight_grad.columns() == args.out_grad.columns());
  STARLING_ASSERT(args.tokens.elements() == args.out_grad.rows());
  const std::int64_t vocabulary = args.weight_grad.rows(), width = args.out_grad.columns();
  const unsigned ids = std::min(blocks_for(vocabulary, kBlocks), kEmbedIdsMax);
  const EmbedGradient of{.weight_grad = args.weight_grad.data,
                         .out_grad = args.out_grad.data,
                         .tokens = args.tokens.data,
                         .count = args.tokens.elements(),
                         .width = width,
                         .ids = static_cast<std::int32_t>(ids)};
  with_count(in_packs(width, {args.weight_grad.data, args.out_grad.data}), [&](auto count) {
    launch({.stream = stream(lane),
            .operation = "embed_backward",
            .blocks = {blocks_for(vocabulary, ids), blocks_for(width, kEmbedThreads * count), 1},
            .threads = kEmbedThreads},
           embed_backward_kernel<count>, of);
  });
}

// In bf16 the product is stored as an activation, where its norm will be: that moves half the bytes
// of floats that are added to, of products that are as fast as memory.
void KernelLayerOps::linear_residual_norm(Lane lane, const model::LinearResidualNorm<>& args) {
  if (activations_ == DType::kF32) return model::LayerOps::linear_residual_norm(lane, args);
  multiply(lane, forward(lane, args.normed, args.in, args.weight));
  norms_.add_and_norm(stream(lane), args);
}

void KernelLayerOps::linear_swiglu(Lane lane, const model::LinearSwiGlu<>& args) {
  STARLING_ASSERT(args.gate_up.rows() == args.gated.rows());
  STARLING_ASSERT(args.gate_up.columns() == 2 * args.gated.columns());
  multiply(lane, forward(lane, args.gate_up, args.in, args.weight));
  const Elements of{args.gated.rows(), args.gated.columns()};
  with_type(args.gated.dtype, [&](auto number) {
    using T = decltype(number);
    with_count(in_packs(of.columns, {args.gated.data, args.gate_up.data}), [&](auto count) {
      launch_elements<count>(lane, "swiglu", of, swiglu_kernel<count, T>, args.gated.as<T>().data,
                             args.gate_up.as<T>().data, of);
    });
  });
}

void KernelLayerOps::swiglu_linear_backward(Lane lane, const model::SwiGluLinearBackward<>& args) {
  STARLING_ASSERT(args.gate_up.shape == args.gate_up_grad.shape);
  STARLING_ASSERT(args.gate_up.rows() == args.gated.rows());
  STARLING_ASSERT(args.gate_up.columns() == 2 * args.gated.columns());
  multiply(lane, backward(lane, args.gated, args.out_grad, args.weight));
  const Elements of{args.gated.rows(), args.gated.columns()};
  with_type(args.gated.dtype, [&](auto number) {
    using T = decltype(number);
    const bool packs =
        in_packs(of.columns, {args.gated.data, args.gate_up.data, args.gate_up_grad.data});
    with_count(packs, [&](auto count) {
      launch_elements<count>(lane, "swiglu_backward", of, swiglu_backward_kernel<count, T>,
                             args.gate_up_grad.as<T>().data, args.gated.as<T>().data,
                             args.gate_up.as<T>().data, of);
    });
  });
  add_weight_grad(lane, args.weight_grad, args.out_grad, args.gated, args.adds);
}

void KernelLayerOps::cross_entropy(Lane lane, const model::CrossEntropy<>& args) {
  STARLING_ASSERT(args.gradient.shape == args.logits.shape);
  STARLING_ASSERT(args.losses.elements() == args.logits.rows());
  STARLING_ASSERT(args.targets.elements() == args.logits.rows());
  const EntropyShape shape{args.logits.columns(), args.scale};
  with_type(args.gradient.dtype, [&](auto number) {
    using T = decltype(number);
    const bool packs = in_packs(shape.vocabulary, {args.gradient.data, args.logits.data});
    with_count(packs, [&](auto count) {
      launch({.stream = stream(lane),
              .operation = "cross_entropy",
              .blocks = {static_cast<unsigned>(args.logits.rows()), 1, 1},
              .threads = row_threads(shape.vocabulary, count, kEntropyThreadsMax)},
             cross_entropy_kernel<count, T>, args.gradient.as<T>().data, args.losses.data,
             args.logits.data, args.targets.data, shape);
    });
  });
}

void KernelLayerOps::turn(Lane lane, const model::LinearRope<>& args) const {
  const model::HeadShape& shape = args.shape;
  check(args.rotations, shape);
  const Rope rope{.tokens = shape.tokens,
                  .half = shape.head_width / 2,
                  .packed_width = shape.packed_width(),
                  .cosines = args.rotations.cosines.data,
                  .sines = args.rotations.sines.data};
  const Elements of{args.qkv.rows(), (shape.heads + shape.kv_heads) * rope.half};
  with_type(args.qkv.dtype, [&](auto number) {
    using T = decltype(number);
    T* qkv = args.qkv.as<T>().data;
    with_count(in_packs(rope.half, {qkv, rope.cosines, rope.sines}), [&](auto count) {
      launch_elements<count>(lane, "rope", of, rope_kernel<count, T>, qkv, rope, of);
    });
  });
}

}  // namespace

std::unique_ptr<model::LayerOps> make_kernel_layer_ops(LayerOpsParts parts, DType activations) {
  return std::make_unique<KernelLayerOps>(std::move(parts), activations);
}

}  // namespace starling::cuda
