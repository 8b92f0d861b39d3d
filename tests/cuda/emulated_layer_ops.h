// CUDA's layer operations with their kernels run on the host (tests/support/cuda_on_host.h), in the
// order of threads that was asked for, for as long as it lives.
#pragma once

#include <memory>

#include "base/cpu_device.h"
#include "cuda/layer_ops.cuh"
#include "tests/cuda/host_products.h"

namespace starling::cuda {

struct EmulatedLayerOps {
  explicit EmulatedLayerOps(model::DType activations,
                            cuda_on_host::Order order = cuda_on_host::Order::kForward,
                            bool warpgroups = false)
      : ops(make_kernel_layer_ops({.device = &device,
                                   .stream = [](Lane) { return Stream{}; },
                                   .products = std::make_unique<HostProducts>(),
                                   .warpgroups = warpgroups},
                                  activations)) {
    cuda_on_host::set_order(order);
  }
  ~EmulatedLayerOps() { cuda_on_host::set_order(cuda_on_host::Order::kForward); }

  CpuDevice device;
  std::unique_ptr<model::LayerOps> ops;
};

}  // namespace starling::cuda
