// Llama::forward_backward() and what it consists of, layer after layer from the last one.
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "model/llama.h"
#include "model/llama_views.h"

namespace starling::model {

void Llama::forward_backward(DeviceSpan<const float> params, DeviceSpan<float> gradients,
                             const TokenBatch& batch, float scale, Weights weights,
                             Gradients before) {
  STARLING_ASSERT(gradients.size == parameters_);
  const auto inputs = begin(batch);
  if (weights == Weights::kNew) ops_->use_weights(kLane, params);
  const auto step = [&] {
    run_layers(params, shape_, 0);
    head_backward(params, gradients, scale, before);
    for (std::size_t layer = layers_.size(); layer-- > 0;) {
      const LayerTensors<const float> tensors = layer_tensors(params, layer);
      const LayerTensors<float> grads = layer_tensors(gradients, layer);
      if (shape_.recompute == Recompute::kBlocks && layer + 1 < layers_.size()) {
        norm_in(tensors, activations_.layers[layer]);
        attention_block(tensors, activations_.layers[layer], shape_, 0);
        gate(tensors, activations_.layers[layer]);
      }
      ffn_backward(tensors, grads, activations_.layers[layer], before);
      attention_backward(tensors, grads, activations_.layers[layer], before);
    }
    const Tensor embedding_grad =
        tensor_at(gradients, embedding_, {config_.vocabulary, config_.width});
    if (before == Gradients::kSet && !config_.tied_head) ops_->zero(kLane, embedding_grad);
    ops_->embed_backward(
        kLane,
        {.weight_grad = embedding_grad, .out_grad = activations_.stream_grad, .tokens = inputs});
  };
  // By reference: a copy of it would be allocated, each step.
  ops_->repeat(kLane, repeat_key(params, gradients, scale, before), std::ref(step));
  has_losses_ = true;
}

// All that what a step enqueues depends on, beside the contents of memory.
RepeatKey Llama::repeat_key(DeviceSpan<const float> params, DeviceSpan<float> gradients,
                            float scale, Gradients before) const {
  const auto address = [](const void* at) {
    return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(at));
  };
  return {address(params.data),
          address(gradients.data),
          address(arena_.data()),
          static_cast<std::uint64_t>(shape_.sequences),
          static_cast<std::uint64_t>(shape_.tokens),
          std::bit_cast<std::uint32_t>(scale),
          static_cast<std::uint64_t>(before),
          static_cast<std::uint64_t>(shape_.recompute) << 1 |
              static_cast<std::uint64_t>(shape_.large_chunks)};
}

void Llama::rehearse(DeviceSpan<const float> params, DeviceSpan<float> gradients, float scale) {
  if (!ops_->rehearses()) return;
  const std::vector<std::int32_t> tokens(
      static_cast<std::size_t>(shape_.sequences * shape_.tokens));
  // The first time ways are chosen, the second what was chosen is kept (LayerOps::repeat()).
  for (const bool chooses : {true, false}) {
    ops_->rehearse(chooses);
    for (const Gradients before : {Gradients::kSet, Gradients::kAdd}) {
      forward_backward(params, gradients, {.inputs = tokens, .targets = tokens}, scale,
                       Weights::kNew, before);
    }
  }
  has_losses_ = false;
}

void Llama::head_backward(DeviceSpan<const float> params, DeviceSpan<float> gradients, float scale,
                          Gradients before) {
  const Activations& act = activations_;
  const Shape head_matrix{config_.vocabulary, config_.width};
  const ConstTensor head = tensor_at(params, head_, head_matrix);
  const Tensor head_grad = tensor_at(gradients, head_, head_matrix);
  const std::int64_t tokens = act.out.rows();
  const float token_scale = scale / static_cast<float>(tokens);
  for (std::int64_t first = 0; first < tokens; first += head_chunk()) {
    const TypedTensor logits_grad = chunk_losses(head, first, token_scale);
    const std::int64_t count = logits_grad.rows();
    ops_->linear_backward(kLane, {.in_grad = act.normed_grad.row_range(first, count),
                                  .weight_grad = head_grad,
                                  .out_grad = logits_grad,
                                  .in = act.normed.row_range(first, count),
                                  .weight = head,
                                  .adds = first > 0 || before == Gradients::kAdd});
  }
  ops_->zero(kLane, act.stream_grad);
  ops_->rms_norm_backward(kLane, {.in_grad = act.stream_grad,
                                  .in_grad_rounded = act.stream_grad_rounded,
                                  .gain_grad = tensor_at(gradients, final_norm_, {config_.width}),
                                  .out_grad = act.normed_grad,
                                  .in = act.out,
                                  .gain = tensor_at(params, final_norm_, {config_.width}),
                                  .inverse_rms = act.inverse_rms,
                                  .adds = before == Gradients::kAdd});
}

void Llama::ffn_backward(const LayerTensors<const float>& weights, const LayerTensors<float>& grads,
                         const LayerActivations& layer, Gradients before) {
  const bool adds = before == Gradients::kAdd;
  const Activations& act = activations_;
  ops_->swiglu_linear_backward(kLane, {.gate_up_grad = act.gate_up_grad,
                                       .gated = act.gated,
                                       .weight_grad = grads.down,
                                       .out_grad = act.stream_grad_rounded,
                                       .gate_up = layer.gate_up,
                                       .weight = weights.down,
                                       .adds = adds});
  if (shape_.recompute != Recompute::kGates) norm_mid(weights, layer);
  ops_->linear_backward(kLane, {.in_grad = act.normed_grad,
                                .weight_grad = grads.gate_up,
                                .out_grad = act.gate_up_grad,
                                .in = layer.normed_mid,
                                .weight = weights.gate_up,
                                .adds = adds});
  ops_->rms_norm_backward(kLane, {.in_grad = act.stream_grad,
                                  .in_grad_rounded = act.stream_grad_rounded,
                                  .gain_grad = grads.post_norm,
                                  .out_grad = act.normed_grad,
                                  .in = layer.mid,
                                  .gain = weights.post_norm,
                                  .inverse_rms = layer.inverse_rms_mid,
                                  .adds = adds});
}

void Llama::attention_backward(const LayerTensors<const float>& weights,
                               const LayerTensors<float>& grads, const LayerActivations& layer,
                               Gradients before) {
  const bool adds = before == Gradients::kAdd;
  const Activations& act = activations_;
  ops_->linear_backward(kLane, {.in_grad = act.attended_grad,
                                .weight_grad = grads.output,
                                .out_grad = act.stream_grad_rounded,
                                .in = layer.attended,
                                .weight = weights.output,
                                .adds = adds});
  ops_->attention_backward(kLane, {.qkv_grad = act.qkv_grad,
                                   .out_grad = act.attended_grad,
                                   .out = layer.attended,
                                   .log_sums = layer.log_sums,
                                   .qkv = layer.qkv,
                                   .rotations = rotations_from(0),
                                   .shape = head_shape(config_, shape_)});
  if (shape_.recompute != Recompute::kGates) norm_in(weights, layer);
  ops_->linear_backward(kLane, {.in_grad = act.normed_grad,
                                .weight_grad = grads.qkv,
                                .out_grad = act.qkv_grad,
                                .in = layer.normed_in,
                                .weight = weights.qkv,
                                .adds = adds});
  ops_->rms_norm_backward(kLane, {.in_grad = act.stream_grad,
                                  .in_grad_rounded = act.stream_grad_rounded,
                                  .gain_grad = grads.input_norm,
                                  .out_grad = act.normed_grad,
                                  .in = layer.in,
                                  .gain = weights.input_norm,
                                  .inverse_rms = layer.inverse_rms_in,
                                  .adds = adds});
}

}  // namespace starling::model
