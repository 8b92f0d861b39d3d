#include "cuda/cuda_flat_ops.h"

#include <utility>

#include "cuda/flat_ops.cuh"

namespace starling::cuda {

namespace {

constexpr unsigned kBlocksOfMultiprocessor = 8;  // 2048 threads

struct LaneStreams {
  CudaDevice* device;  // never null
  Stream of(Lane lane) const { return {device->stream(lane), lane}; }
};

}  // namespace

Result<std::unique_ptr<optim::FlatOps>> make_cuda_flat_ops(CudaDevice& device) {
  using Ops = KernelFlatOps<LaneStreams>;
  auto scratch = device.allocate(MemoryKind::kDevice, Ops::scratch_bytes());
  if (!scratch.ok()) return std::move(scratch).error().with_context("sums of squares");
  const auto blocks = static_cast<unsigned>(device.multiprocessors()) * kBlocksOfMultiprocessor;
  return std::unique_ptr<optim::FlatOps>(
      std::make_unique<Ops>(LaneStreams{&device}, blocks, std::move(scratch).value()));
}

}  // namespace starling::cuda
