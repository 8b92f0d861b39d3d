// What the module answers to the binary that loads it. Both are C++ and share the types of the
// seams, so they must have been translated from the same headers in the same way: kModuleIdentity
// is a digest of those (module_identity.cmake), compiled into both, and compared before anything
// else is asked.
#pragma once

#include "cuda/backend.h"

namespace starling::cuda {

extern const char* const kModuleIdentity;

struct Module {
  Result<int> (*count_gpus)();
  Result<GpuFacts> (*gpu_facts)(int ordinal);
  Result<std::unique_ptr<Device>> (*make_device)(int ordinal);
  void (*leave_gpu)(int ordinal);
  Result<Buffer> (*pin)(Device& device, std::span<std::byte> memory);
  Result<std::unique_ptr<optim::FlatOps>> (*make_flat_ops)(Device& device);
  Result<std::unique_ptr<model::LayerOps>> (*make_layer_ops)(Device& device,
                                                             model::DType activations);
};

// The names of the module's two functions, of these types.
inline constexpr const char* kIdentitySymbol = "starling_cuda_identity";
inline constexpr const char* kModuleSymbol = "starling_cuda_module";
using IdentityFunction = const char*();
using ModuleFunction = const Module*();

}  // namespace starling::cuda

// Only these two are seen outside of the module.
#define STARLING_CUDA_EXPORT extern "C" [[gnu::visibility("default")]]
