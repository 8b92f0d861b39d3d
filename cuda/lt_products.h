// The GPU's Products: cuBLASLt, whose algorithm is chosen once for each shape, type and alignment:
// the first that it proposes, or, in a rehearsal, the fastest of those it proposes. Its workspace
// is allocated at start. Results are the same bits each time, but another run may choose otherwise.
// Inside the module only.
#pragma once

#include <memory>

#include "base/result.h"
#include "cuda/cuda_device.h"
#include "cuda/products.h"

namespace starling::cuda {

// kUnavailable: the library does not start, or has nothing for this GPU. `device` must outlive the
// products.
Result<std::unique_ptr<Products>> make_lt_products(CudaDevice& device);

}  // namespace starling::cuda
