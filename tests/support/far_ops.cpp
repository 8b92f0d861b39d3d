// The operations of a FarDevice: the spans of each are found near, and the CPU's are called when
// their turn comes.
#include <utility>

#include "tests/support/far_device.h"
#include "tests/support/layer_ops_elsewhere.h"

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
  void add_scaled(Lane lane, DeviceSpan<float> target, float scale, DeviceSpan<const float> source,
                  DeviceSpan<bf16> rounded) override {
    auto same = device_.unchanged(source.data, source.size * sizeof(float));
    device_.enqueue(lane, [=, this, to = near(target), from = near(source), out = near(rounded)] {
      same();
      ops_->add_scaled(lane, to, scale, from, out);
    });
  }
  void squared_norm(Lane lane, DeviceSpan<float> target, DeviceSpan<const float> source) override {
    device_.enqueue(lane, [=, this, to = near(target), from = near(source)] {
      ops_->squared_norm(lane, to, from);
    });
  }
  void adamw(Lane lane, const optim::AdamWScalars& scalars,
             const optim::AdamWRange& range) override {
    const optim::AdamWRange all{near(range.param),    near(range.moment1),      near(range.moment2),
                                near(range.gradient), near(range.squared_norm), near(range.borders),
                                near(range.rounded)};
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

class FarCall {
 public:
  explicit FarCall(FarDevice& device) : device_(&device) {}

  void use_weights(Lane lane, LayerOps& ops, DeviceSpan<const float> weights) {
    const DeviceSpan<const float> all{device_->near(weights.data, weights.size), weights.size};
    device_->enqueue(lane, [=, &ops] { ops.use_weights(lane, all); });
  }
  // The CPU's have none.
  DeviceSpan<bf16> rounded_weights(LayerOps&, DeviceSpan<const float>) { return {}; }
  template <class Args, class Visit, class Run>
  void operator()(Lane lane, Args args, const Visit& visit, const Run& run) {
    visit(args, [this](auto&... views) { (find(views), ...); });
    device_->enqueue(lane, [=] { run(lane, args); });
  }

 private:
  template <class T>
  void find(TensorView<T>& view) const {
    view.data = device_->near(view.data, static_cast<std::size_t>(view.elements()));
  }
  template <class Byte>
  void find(TypedView<Byte>& view) const {
    const std::int64_t bytes = view.elements() * model::bytes_of_one(view.dtype);
    view.data = device_->near(view.data, static_cast<std::size_t>(bytes));
  }

  FarDevice* device_;  // never null
};

}  // namespace

std::unique_ptr<optim::FlatOps> make_far_flat_ops(FarDevice& device,
                                                  std::unique_ptr<optim::FlatOps> ops) {
  return std::make_unique<FarFlatOps>(device, std::move(ops));
}

std::unique_ptr<model::LayerOps> make_far_layer_ops(FarDevice& device,
                                                    std::unique_ptr<LayerOps> ops) {
  return std::make_unique<LayerOpsElsewhere<FarCall>>(FarCall(device), std::move(ops));
}

}  // namespace starling::testing
