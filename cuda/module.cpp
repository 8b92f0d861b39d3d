// The module's two functions: what module_loader.cpp looks for.
#include "cuda/module.h"

#include "cuda/cuda_device.h"
#include "cuda/cuda_flat_ops.h"
#include "cuda/cuda_layer_ops.h"

namespace starling::cuda {

namespace {

Result<std::unique_ptr<Device>> make_any_device(int ordinal) {
  auto device = CudaDevice::create(ordinal);
  if (!device.ok()) return std::move(device).error();
  return std::unique_ptr<Device>(std::move(device).value());
}

// A GPU that could not be opened cannot be left either: the next one's first launch must not find
// that error.
void leave(int ordinal) {
  if (cudaSetDevice(ordinal) == cudaSuccess) cudaDeviceReset();
  const cudaError_t forgotten = cudaGetLastError();
  (void)forgotten;
}

// Whatever make_device() gave.
CudaDevice& ours(Device& device) { return static_cast<CudaDevice&>(device); }

Result<Buffer> pin_on(Device& device, std::span<std::byte> memory) {
  return ours(device).pin(memory);
}

Result<std::unique_ptr<optim::FlatOps>> flat_ops_on(Device& device) {
  return make_cuda_flat_ops(ours(device));
}

Result<std::unique_ptr<model::LayerOps>> layer_ops_on(Device& device, model::DType activations) {
  return make_cuda_layer_ops(ours(device), activations);
}

constexpr Module kModule{count_gpus, ask_driver,  make_any_device, leave,
                         pin_on,     flat_ops_on, layer_ops_on};

}  // namespace

}  // namespace starling::cuda

STARLING_CUDA_EXPORT const char* starling_cuda_identity();
STARLING_CUDA_EXPORT const starling::cuda::Module* starling_cuda_module();

const char* starling_cuda_identity() { return starling::cuda::kModuleIdentity; }

const starling::cuda::Module* starling_cuda_module() { return &starling::cuda::kModule; }
