// The operations of a FarDevice: the spans of each are found near, and the CPU's are called when
// their turn comes.
#include <utility>

#include "tests/support/far_device.h"

namespace starling::testing {

namespace {

using model::LayerOps;
using model::TensorView;
using model::TypedView;

class FarFlatOps final : public optim::FlatOps {
 public:
  FarFlatOps(FarDevice& device, std::unique_ptr<optim::FlatOps> ops)
      : device_(device), ops_(std::move(ops)) {}

  void fill(Lane lane, DeviceSpan<float> target, float value) override {
    device_.enqueue(lane, [=, this, to = near(target)] { ops_->fill(lane, to, value); });
  }
  void add_scaled(Lane lane, DeviceSpan<float> target, float scale,
                  DeviceSpan<const float> source) override {
    auto same = device_.unchanged(source.data, source.size * sizeof(float));
    device_.enqueue(lane, [=, this, to = near(target), from = near(source)] {
      same();
      ops_->add_scaled(lane, to, scale, from);
    });
  }
  void squared_norm(Lane lane, DeviceSpan<float> target, DeviceSpan<const float> source) override {
    device_.enqueue(lane, [=, this, to = near(target), from = near(source)] {
      ops_->squared_norm(lane, to, from);
    });
  }
  void adamw(Lane lane, const optim::AdamWScalars& scalars,
             const optim::AdamWRange& range) override {
    const optim::AdamWRange all{near(range.param), near(range.moment1), near(range.moment2),
                                near(range.gradient), near(range.squared_norm)};
    device_.enqueue(lane, [=, this] { ops_->adamw(lane, scalars, all); });
  }

 private:
  template <class T>
  DeviceSpan<T> near(DeviceSpan<T> span) const {
    return {device_.near(span.data, span.size), span.size};
  }

  FarDevice& device_;
  std::unique_ptr<optim::FlatOps> ops_;
};

class FarLayerOps final : public LayerOps {
 public:
  FarLayerOps(FarDevice& device, std::unique_ptr<LayerOps> ops)
      : device_(device), ops_(std::move(ops)) {}

  model::DType activations() const override { return ops_->activations(); }
  void reserve(const model::HeadShape& largest) override { ops_->reserve(largest); }
  void use_weights(Lane lane, DeviceSpan<const float> weights) override {
    const DeviceSpan<const float> all{device_.near(weights.data, weights.size), weights.size};
    device_.enqueue(lane, [=, this] { ops_->use_weights(lane, all); });
  }

  void zero(Lane lane, model::Tensor target) override {
    find(target);
    device_.enqueue(lane, [=, this] { ops_->zero(lane, target); });
  }
  void embed(Lane lane, const model::Embed<>& args) override {
    call(lane, &LayerOps::embed, args, [this](auto& a) { find(a.out, a.weight, a.tokens); });
  }
  void embed_backward(Lane lane, const model::EmbedBackward<>& args) override {
    call(lane, &LayerOps::embed_backward, args,
         [this](auto& a) { find(a.weight_grad, a.out_grad, a.tokens); });
  }
  void rms_norm(Lane lane, const model::RmsNorm<>& args) override {
    call(lane, &LayerOps::rms_norm, args,
         [this](auto& a) { find(a.out, a.inverse_rms, a.in, a.gain); });
  }
  void rms_norm_backward(Lane lane, const model::RmsNormBackward<>& args) override {
    call(lane, &LayerOps::rms_norm_backward, args, [this](auto& a) {
      find(a.in_grad, a.gain_grad, a.out_grad, a.in, a.gain, a.inverse_rms);
    });
  }
  void linear(Lane lane, const model::Linear<>& args) override {
    call(lane, &LayerOps::linear, args, [this](auto& a) { find(a.out, a.in, a.weight); });
  }
  void linear_backward(Lane lane, const model::LinearBackward<>& args) override {
    call(lane, &LayerOps::linear_backward, args,
         [this](auto& a) { find(a.in_grad, a.weight_grad, a.out_grad, a.in, a.weight); });
  }
  void linear_residual(Lane lane, const model::LinearResidual<>& args) override {
    call(lane, &LayerOps::linear_residual, args,
         [this](auto& a) { find(a.out, a.residual, a.in, a.weight); });
  }
  void linear_rope(Lane lane, const model::LinearRope<>& args) override {
    call(lane, &LayerOps::linear_rope, args,
         [this](auto& a) { find(a.qkv, a.in, a.weight, a.rotations.cosines, a.rotations.sines); });
  }
  void attention(Lane lane, const model::Attention<>& args) override {
    call(lane, &LayerOps::attention, args, [this](auto& a) { find(a.out, a.log_sums, a.qkv); });
  }
  void attention_backward(Lane lane, const model::AttentionBackward<>& args) override {
    call(lane, &LayerOps::attention_backward, args, [this](auto& a) {
      find(a.qkv_grad, a.out_grad, a.out, a.log_sums, a.qkv, a.rotations.cosines,
           a.rotations.sines);
    });
  }
  void linear_swiglu(Lane lane, const model::LinearSwiGlu<>& args) override {
    call(lane, &LayerOps::linear_swiglu, args,
         [this](auto& a) { find(a.gate_up, a.gated, a.in, a.weight); });
  }
  void swiglu_linear_backward(Lane lane, const model::SwiGluLinearBackward<>& args) override {
    call(lane, &LayerOps::swiglu_linear_backward, args, [this](auto& a) {
      find(a.gate_up_grad, a.gated, a.weight_grad, a.out_grad, a.gate_up, a.weight);
    });
  }
  void cross_entropy(Lane lane, const model::CrossEntropy<>& args) override {
    call(lane, &LayerOps::cross_entropy, args,
         [this](auto& a) { find(a.logits, a.losses, a.targets); });
  }

 private:
  template <class Args, class FindAll>
  void call(Lane lane, void (LayerOps::*operation)(Lane, const Args&), Args args,
            const FindAll& find_all) {
    find_all(args);
    device_.enqueue(lane, [=, this] { (ops_.get()->*operation)(lane, args); });
  }

  template <class... Views>
  void find(Views&... views) const {
    (find_one(views), ...);
  }
  template <class T>
  void find_one(TensorView<T>& view) const {
    view.data = device_.near(view.data, static_cast<std::size_t>(view.elements()));
  }
  template <class Byte>
  void find_one(TypedView<Byte>& view) const {
    const std::int64_t bytes = view.elements() * model::bytes_of_one(view.dtype);
    view.data = device_.near(view.data, static_cast<std::size_t>(bytes));
  }

  FarDevice& device_;
  std::unique_ptr<LayerOps> ops_;
};

}  // namespace

std::unique_ptr<optim::FlatOps> make_far_flat_ops(FarDevice& device,
                                                  std::unique_ptr<optim::FlatOps> ops) {
  return std::make_unique<FarFlatOps>(device, std::move(ops));
}

std::unique_ptr<model::LayerOps> make_far_layer_ops(FarDevice& device,
                                                    std::unique_ptr<LayerOps> ops) {
  return std::make_unique<FarLayerOps>(device, std::move(ops));
}

}  // namespace starling::testing
