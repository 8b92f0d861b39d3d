// LayerOpsElsewhere: LayerOps whose callers hold tensors at other addresses than those that the
// operations beneath are given. `Call` decides how one becomes the other and when the operation
// runs: call(lane, args, visit, run) has visit(args, find), which calls find(view...) with every
// tensor of args, and run(lane, args), which calls the operation.
#pragma once

#include <memory>
#include <utility>

#include "model/layer_ops.h"

namespace starling::testing {

template <class Call>
class LayerOpsElsewhere final : public model::LayerOps {
 public:
  LayerOpsElsewhere(Call call, std::unique_ptr<model::LayerOps> ops)
      : call_(std::move(call)), ops_(std::move(ops)) {}

  model::DType activations() const override { return ops_->activations(); }
  std::size_t scratch_bytes(const model::StepShape& largest) const override {
    return ops_->scratch_bytes(largest);
  }
  Status reserve(const model::StepShape& largest) override { return ops_->reserve(largest); }
  void use_weights(Lane lane, DeviceSpan<const float> weights) override {
    call_.use_weights(lane, *ops_, weights);
  }
  DeviceSpan<bf16> rounded_weights(DeviceSpan<const float> weights) override {
    return call_.rounded_weights(*ops_, weights);
  }

  void zero(Lane lane, model::Tensor target) override {
    call_(
        lane, target, [](auto& a, const auto& find) { find(a); },
        [ops = ops_.get()](Lane on, const model::Tensor& a) { ops->zero(on, a); });
  }
  void embed(Lane lane, const model::Embed<>& args) override {
    run(lane, &model::LayerOps::embed, args,
        [](auto& a, const auto& find) { find(a.out, a.weight, a.tokens); });
  }
  void embed_backward(Lane lane, const model::EmbedBackward<>& args) override {
    run(lane, &model::LayerOps::embed_backward, args,
        [](auto& a, const auto& find) { find(a.weight_grad, a.out_grad, a.tokens); });
  }
  void rms_norm(Lane lane, const model::RmsNorm<>& args) override {
    run(lane, &model::LayerOps::rms_norm, args,
        [](auto& a, const auto& find) { find(a.out, a.inverse_rms, a.in, a.gain); });
  }
  void rms_norm_backward(Lane lane, const model::RmsNormBackward<>& args) override {
    run(lane, &model::LayerOps::rms_norm_backward, args, [](auto& a, const auto& find) {
      find(a.in_grad, a.in_grad_rounded, a.gain_grad, a.out_grad, a.in, a.gain, a.inverse_rms);
    });
  }
  void linear(Lane lane, const model::Linear<>& args) override {
    run(lane, &model::LayerOps::linear, args,
        [](auto& a, const auto& find) { find(a.out, a.in, a.weight); });
  }
  void linear_backward(Lane lane, const model::LinearBackward<>& args) override {
    run(lane, &model::LayerOps::linear_backward, args, [](auto& a, const auto& find) {
      find(a.in_grad, a.weight_grad, a.out_grad, a.in, a.weight);
    });
  }
  void linear_residual(Lane lane, const model::LinearResidual<>& args) override {
    run(lane, &model::LayerOps::linear_residual, args,
        [](auto& a, const auto& find) { find(a.out, a.residual, a.in, a.weight); });
  }
  void linear_residual_norm(Lane lane, const model::LinearResidualNorm<>& args) override {
    run(lane, &model::LayerOps::linear_residual_norm, args, [](auto& a, const auto& find) {
      find(a.out, a.normed, a.inverse_rms, a.residual, a.in, a.weight, a.gain);
    });
  }
  void linear_rope(Lane lane, const model::LinearRope<>& args) override {
    run(lane, &model::LayerOps::linear_rope, args, [](auto& a, const auto& find) {
      find(a.qkv, a.in, a.weight, a.rotations.cosines, a.rotations.sines);
    });
  }
  void attention(Lane lane, const model::Attention<>& args) override {
    run(lane, &model::LayerOps::attention, args,
        [](auto& a, const auto& find) { find(a.out, a.log_sums, a.qkv); });
  }
  void attention_backward(Lane lane, const model::AttentionBackward<>& args) override {
    run(lane, &model::LayerOps::attention_backward, args, [](auto& a, const auto& find) {
      find(a.qkv_grad, a.out_grad, a.out, a.log_sums, a.qkv, a.rotations.cosines,
           a.rotations.sines);
    });
  }
  void linear_swiglu(Lane lane, const model::LinearSwiGlu<>& args) override {
    run(lane, &model::LayerOps::linear_swiglu, args,
        [](auto& a, const auto& find) { find(a.gate_up, a.gated, a.in, a.weight); });
  }
  void swiglu_linear_backward(Lane lane, const model::SwiGluLinearBackward<>& args) override {
    run(lane, &model::LayerOps::swiglu_linear_backward, args, [](auto& a, const auto& find) {
      find(a.gate_up_grad, a.gated, a.weight_grad, a.out_grad, a.gate_up, a.weight);
    });
  }
  void cross_entropy(Lane lane, const model::CrossEntropy<>& args) override {
    run(lane, &model::LayerOps::cross_entropy, args,
        [](auto& a, const auto& find) { find(a.gradient, a.losses, a.logits, a.targets); });
  }

 private:
  template <class Args, class Visit>
  void run(Lane lane, void (model::LayerOps::*operation)(Lane, const Args&), const Args& args,
           const Visit& visit) {
    call_(lane, args, visit,
          [ops = ops_.get(), operation](Lane on, const Args& a) { (ops->*operation)(on, a); });
  }

  Call call_;
  std::unique_ptr<model::LayerOps> ops_;
};

}  // namespace starling::testing
