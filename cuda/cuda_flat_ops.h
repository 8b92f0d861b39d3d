// The GPU's FlatOps: kernels of flat_kernels.cuh on the lanes of a CudaDevice, which must outlive
// it. Sums are in double and in an order that the size alone decides. Allocates its scratch at
// start: kExhausted where there is no room. Inside the module only.
#pragma once

#include <memory>

#include "base/result.h"
#include "cuda/cuda_device.h"
#include "optim/flat_ops.h"

namespace starling::cuda {

Result<std::unique_ptr<optim::FlatOps>> make_cuda_flat_ops(CudaDevice& device);

}  // namespace starling::cuda
