#include "cuda/cuda_layer_ops.h"

#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "cuda/layer_ops.cuh"
#include "cuda/lt_products.h"
#include "cuda/step_graphs.h"

namespace starling::cuda {

namespace {

// Null where CUDA is told to wait for each launch, which is how an operation that fails is found: a
// graph is one launch.
std::unique_ptr<Repeats> keep_repeats(CudaDevice& device) {
  const char* const blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  if (blocking != nullptr && std::string_view(blocking) == "1") return nullptr;
  return std::make_unique<StepGraphs>(device);
}

}  // namespace

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
                                .repeats = keep_repeats(device),
                                .shared_bytes_max = device.shared_bytes_max(),
                                .warpgroups = device.has_warpgroups()},
                               activations);
}

}  // namespace starling::cuda
