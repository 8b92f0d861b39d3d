#include "cuda/cuda_layer_ops.h"

#include <utility>

#include "cuda/layer_ops.cuh"
#include "cuda/lt_products.h"
#include "cuda/step_graphs.h"

namespace starling::cuda {

Result<std::unique_ptr<model::LayerOps>> make_cuda_layer_ops(CudaDevice& device,
                                                             model::DType activations) {
  Result<std::unique_ptr<Products>> products = make_lt_products(device);
  if (!products.ok()) return std::move(products).error();
  return make_kernel_layer_ops({.device = &device,
                                .stream =
                                    [&device](Lane lane) {
                                      return Stream{device.stream(lane), lane};
                                    },
                                .products = std::move(products).value(),
                                .repeats = std::make_unique<StepGraphs>(device),
                                .shared_bytes_max = device.shared_bytes_max(),
                                .warpgroups = device.has_warpgroups()},
                               activations);
}

}  // namespace starling::cuda
