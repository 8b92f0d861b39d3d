#include "cuda/cuda_flat_ops.h"

#include <string>
#include <utility>

#include "cuda/device_choice.h"
#include "cuda/flat_ops.cuh"

namespace starling::cuda {

namespace {

constexpr unsigned kBlocksOfMultiprocessor = 8;  // 2048 threads

struct LaneStreams {
  CudaDevice* device;  // never null
  Stream of(Lane lane) const { return {device->stream(lane), lane}; }
};

// Asked for a kernel, the driver loads its code onto the GPU. Where it has none for it (one built
// for other architectures), or cannot translate it, that is better told at start, when another
// device may do, than by the first launch; and no step has to find room for code.
Status check_code(CudaDevice& device) {
  device.stream(Lane::kCompute);  // this GPU is meant
  cudaError_t asked = cudaSuccess;
  const auto ask = [&asked](auto*... kernels) {
    cudaFuncAttributes known{};
    ((asked = asked == cudaSuccess ? cudaFuncGetAttributes(&known, kernels) : asked), ...);
  };
  ask(fill_kernel, add_scaled_kernel, square_sums_kernel, add_sums_kernel, adamw_kernel);
  if (asked == cudaSuccess) return ok_status();
  const cudaError_t forgotten = cudaGetLastError();
  (void)forgotten;
  if (asked == cudaErrorMemoryAllocation) return no_context(device.ordinal());
  const std::string problem = std::string(device.name()) + ": " + problem_of(asked);
  return Error(ErrorCode::kUnavailable,
               problem +
                   "; was this built for it (CMAKE_CUDA_ARCHITECTURES)? Else set "
                   "device.name = \"cpu\"");
}

}  // namespace

Result<std::unique_ptr<optim::FlatOps>> make_cuda_flat_ops(CudaDevice& device) {
  using Ops = KernelFlatOps<LaneStreams>;
  if (Status code = check_code(device); !code.ok()) return std::move(code).error();
  auto scratch = device.allocate(MemoryKind::kDevice, Ops::scratch_bytes());
  if (!scratch.ok()) return std::move(scratch).error().with_context("sums of squares");
  const auto blocks = static_cast<unsigned>(device.multiprocessors()) * kBlocksOfMultiprocessor;
  return std::unique_ptr<optim::FlatOps>(
      std::make_unique<Ops>(LaneStreams{&device}, blocks, std::move(scratch).value()));
}

}  // namespace starling::cuda
