// LayerOps of a device whose memory the host cannot read, for tests that hold tensors on the host:
// each call copies all of them to the device and, once it is done, those that it may write back.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/device.h"
#include "tests/support/layer_ops_elsewhere.h"

namespace starling::testing {

class HostedCall {
 public:
  explicit HostedCall(Device& device) : device_(&device) {}

  // Copies of weights at other addresses would not be found.
  void use_weights(Lane, model::LayerOps&, DeviceSpan<const float>) {}
  DeviceSpan<bf16> rounded_weights(model::LayerOps&, DeviceSpan<const float>) { return {}; }

  template <class Args, class Visit, class Run>
  void operator()(Lane lane, Args args, const Visit& visit, const Run& run) {
    std::vector<Copied> all;
    visit(args, [&](auto&... views) { (move(lane, views, all), ...); });
    run(lane, std::as_const(args));
    device_->drain();
    for (const Copied& one : all) {
      if (!one.host.empty()) device_->copy_out(lane, one.host, one.there.as<const std::byte>());
    }
    device_->drain();
  }

 private:
  struct Copied {
    Buffer there;
    std::span<std::byte> host;  // empty: only read
  };

  template <class T>
  void move(Lane lane, model::TensorView<T>& view, std::vector<Copied>& all) {
    view.data = moved(lane, view.data, view.elements() * std::int64_t{sizeof(T)}, all);
  }
  template <class Byte>
  void move(Lane lane, model::TypedView<Byte>& view, std::vector<Copied>& all) {
    view.data = moved(lane, view.data, view.elements() * model::bytes_of_one(view.dtype), all);
  }
  template <class T>
  T* moved(Lane lane, T* data, std::int64_t count, std::vector<Copied>& all) {
    const auto bytes = static_cast<std::size_t>(count);
    for (const Copied& one : all) {  // what is one tensor here is one there
      const bool is_same = one.host.data() == static_cast<const void*>(data);
      if (is_same && one.host.size() == bytes) return static_cast<T*>(one.there.data());
    }
    Result<Buffer> there = device_->allocate(MemoryKind::kDevice, bytes);
    STARLING_ASSERT(there.ok());
    all.push_back({std::move(there).value(), {}});
    void* const at = all.back().there.data();
    device_->copy_in(lane, {static_cast<std::byte*>(at), bytes},
                     {reinterpret_cast<const std::byte*>(data), bytes});
    if constexpr (!std::is_const_v<T>) {
      all.back().host = {reinterpret_cast<std::byte*>(data), bytes};
    }
    return static_cast<T*>(at);
  }

  Device* device_;  // never null
};

inline std::unique_ptr<model::LayerOps> make_hosted_layer_ops(
    Device& device, std::unique_ptr<model::LayerOps> ops) {
  return std::make_unique<LayerOpsElsewhere<HostedCall>>(HostedCall(device), std::move(ops));
}

}  // namespace starling::testing
