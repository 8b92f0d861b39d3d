// cuda/backend.h for a build without CUDA.

#include <string>

#include "base/assert.h"
#include "cuda/backend.h"

namespace starling::cuda {

Result<std::unique_ptr<Device>> make_device(int ordinal) {
  return Error(ErrorCode::kUnavailable,
               "CUDA device " + std::to_string(ordinal) + ": this build has no CUDA");
}

// Nobody holds a device from make_device(), so nobody can ask for its operations.

std::unique_ptr<optim::FlatOps> make_flat_ops(Device& /*device*/) {
  assertion_failed("a CUDA device exists", __FILE__, __LINE__);
}

std::unique_ptr<model::LayerOps> make_layer_ops(Device& /*device*/) {
  assertion_failed("a CUDA device exists", __FILE__, __LINE__);
}

}  // namespace starling::cuda
