#include "peer/bench/timed_layer_ops.h"

#include <utility>

namespace starling::peer {

void TimedLayerOps::name_products(DeviceSpan<const float> params,
                                  const model::ParamLayout& layout) {
  // Ends of the names of the first parameter of each matrix that Llama multiplies by.
  static constexpr std::pair<std::string_view, ProductNames> kProducts[] = {
      {"q_proj.weight", {"qkv, rotated", "qkv backward"}},
      {"o_proj.weight", {"attention output, residual, norm", "attention output backward"}},
      {"gate_proj.weight", {"gate and up, SwiGLU", "gate and up backward"}},
      {"down_proj.weight", {"down, residual, norm", "down and SwiGLU backward"}},
      {"embed_tokens.weight", {"head product", "head product backward"}},
      {"lm_head.weight", {"head product", "head product backward"}},
  };
  products_.clear();
  for (const model::ParamSlot& slot : layout.slots()) {
    for (const auto& [end, names] : kProducts) {
      if (slot.name.ends_with(end)) products_[params.data + slot.range.first] = names;
    }
  }
}

TimedLayerOps::ProductNames TimedLayerOps::names_of(const float* weight) const {
  const auto found = products_.find(weight);
  return found == products_.end() ? ProductNames{} : found->second;
}

// What nobody copies is no operator.
void TimedLayerOps::use_weights(Lane lane, DeviceSpan<const float> weights) {
  const bool copied = device_.name() != "cpu" && activations() == model::DType::kBf16;
  if (!copied) return ops_->use_weights(lane, weights);
  const auto bytes = static_cast<double>(weights.size * (sizeof(float) + sizeof(bf16)));
  times_.measure("weights in bf16", {.operations = 0, .bytes = bytes}, device_,
                 [&] { ops_->use_weights(lane, weights); });
}

void TimedLayerOps::zero(Lane lane, model::Tensor target) {
  const Cost cost = per_value(static_cast<double>(target.elements()), 1, 0);
  times_.measure("zero", cost, device_, [&] { ops_->zero(lane, target); });
}

void TimedLayerOps::embed(Lane lane, const model::Embed<>& args) {
  times_.measure("embedding", cost_of(args), device_, [&] { ops_->embed(lane, args); });
}

void TimedLayerOps::embed_backward(Lane lane, const model::EmbedBackward<>& args) {
  times_.measure("embedding backward", cost_of(args), device_,
                 [&] { ops_->embed_backward(lane, args); });
}

void TimedLayerOps::rms_norm(Lane lane, const model::RmsNorm<>& args) {
  times_.measure("norm", cost_of(args), device_, [&] { ops_->rms_norm(lane, args); });
}

void TimedLayerOps::rms_norm_backward(Lane lane, const model::RmsNormBackward<>& args) {
  times_.measure("norm backward", cost_of(args), device_,
                 [&] { ops_->rms_norm_backward(lane, args); });
}

void TimedLayerOps::linear(Lane lane, const model::Linear<>& args) {
  times_.measure(names_of(args.weight.data).forward, cost_of(args), device_,
                 [&] { ops_->linear(lane, args); });
}

void TimedLayerOps::linear_backward(Lane lane, const model::LinearBackward<>& args) {
  times_.measure(names_of(args.weight.data).backward, cost_of(args), device_,
                 [&] { ops_->linear_backward(lane, args); });
}

void TimedLayerOps::linear_residual(Lane lane, const model::LinearResidual<>& args) {
  times_.measure(names_of(args.weight.data).forward, cost_of(args), device_,
                 [&] { ops_->linear_residual(lane, args); });
}

void TimedLayerOps::linear_residual_norm(Lane lane, const model::LinearResidualNorm<>& args) {
  times_.measure(names_of(args.weight.data).forward, cost_of(args), device_,
                 [&] { ops_->linear_residual_norm(lane, args); });
}

void TimedLayerOps::linear_rope(Lane lane, const model::LinearRope<>& args) {
  times_.measure(names_of(args.weight.data).forward, cost_of(args), device_,
                 [&] { ops_->linear_rope(lane, args); });
}

void TimedLayerOps::attention(Lane lane, const model::Attention<>& args) {
  times_.measure("attention", cost_of(args), device_, [&] { ops_->attention(lane, args); });
}

void TimedLayerOps::attention_backward(Lane lane, const model::AttentionBackward<>& args) {
  times_.measure("attention backward", cost_of(args), device_,
                 [&] { ops_->attention_backward(lane, args); });
}

void TimedLayerOps::linear_swiglu(Lane lane, const model::LinearSwiGlu<>& args) {
  times_.measure(names_of(args.weight.data).forward, cost_of(args), device_,
                 [&] { ops_->linear_swiglu(lane, args); });
}

void TimedLayerOps::swiglu_linear_backward(Lane lane, const model::SwiGluLinearBackward<>& args) {
  times_.measure(names_of(args.weight.data).backward, cost_of(args), device_,
                 [&] { ops_->swiglu_linear_backward(lane, args); });
}

void TimedLayerOps::cross_entropy(Lane lane, const model::CrossEntropy<>& args) {
  times_.measure("cross entropy", cost_of(args), device_, [&] { ops_->cross_entropy(lane, args); });
}

}  // namespace starling::peer
