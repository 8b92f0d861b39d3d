// The GPU's LayerOps: layer_ops.cuh on the lanes of a CudaDevice, which must outlive it, with
// matrix products by cuBLASLt. Errors: kUnavailable where that does not start, kExhausted for its
// workspace. Inside the module only.
#pragma once

#include <memory>

#include "base/result.h"
#include "cuda/cuda_device.h"
#include "model/layer_ops.h"

namespace starling::cuda {

Result<std::unique_ptr<model::LayerOps>> make_cuda_layer_ops(CudaDevice& device,
                                                             model::DType activations);

}  // namespace starling::cuda
