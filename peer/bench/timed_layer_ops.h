// TimedLayerOps: LayerOps that hand every call on to others and measure it, for starling bench.
// Products by a matrix are told apart by the parameter that they multiply by. Thread: the
// trainer's. It waits for the device around every call, so nothing overlaps.
#pragma once

#include <map>
#include <memory>
#include <string_view>

#include "model/layer_ops.h"
#include "model/param_layout.h"
#include "peer/bench/operator_times.h"

namespace starling::peer {

class TimedLayerOps final : public model::LayerOps {
 public:
  // `device` and `times` must outlive it.
  TimedLayerOps(std::unique_ptr<model::LayerOps> ops, Device& device, OperatorTimes& times)
      : ops_(std::move(ops)), device_(device), times_(times) {}

  // Until then a product is just one.
  void name_products(DeviceSpan<const float> params, const model::ParamLayout& layout);

  std::size_t scratch_bytes(const model::StepShape& largest) const override {
    return ops_->scratch_bytes(largest);
  }
  Status reserve(const model::StepShape& largest) override { return ops_->reserve(largest); }
  void use_weights(Lane lane, DeviceSpan<const float> weights) override;
  DeviceSpan<bf16> rounded_weights(DeviceSpan<const float> weights) override {
    return ops_->rounded_weights(weights);
  }
  // Not repeat(): what is measured is called each time.
  bool rehearses() const override { return ops_->rehearses(); }
  void rehearse(bool on) override { ops_->rehearse(on); }
  model::DType activations() const override { return ops_->activations(); }
  void zero(Lane lane, model::Tensor target) override;
  void embed(Lane lane, const model::Embed<>& args) override;
  void embed_backward(Lane lane, const model::EmbedBackward<>& args) override;
  void rms_norm(Lane lane, const model::RmsNorm<>& args) override;
  void rms_norm_backward(Lane lane, const model::RmsNormBackward<>& args) override;
  void linear(Lane lane, const model::Linear<>& args) override;
  void linear_backward(Lane lane, const model::LinearBackward<>& args) override;
  void linear_residual(Lane lane, const model::LinearResidual<>& args) override;
  void linear_residual_norm(Lane lane, const model::LinearResidualNorm<>& args) override;
  void linear_rope(Lane lane, const model::LinearRope<>& args) override;
  void attention(Lane lane, const model::Attention<>& args) override;
  void attention_backward(Lane lane, const model::AttentionBackward<>& args) override;
  void linear_swiglu(Lane lane, const model::LinearSwiGlu<>& args) override;
  void swiglu_linear_backward(Lane lane, const model::SwiGluLinearBackward<>& args) override;
  void cross_entropy(Lane lane, const model::CrossEntropy<>& args) override;

 private:
  struct ProductNames {
    std::string_view forward = "product", backward = "product backward";
  };
  ProductNames names_of(const float* weight) const;

  const std::unique_ptr<model::LayerOps> ops_;
  Device& device_;
  OperatorTimes& times_;
  std::map<const float*, ProductNames> products_;  // by where the matrix begins
};

}  // namespace starling::peer
