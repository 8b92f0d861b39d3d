// A CUDA module whose driver is too old, for tests of how modules are loaded.
// STARLING_FAKE_IDENTITY: another build's; the tests of the binary put the one that fits beside it.
#include "cuda/device_choice.h"
#include "cuda/module.h"

namespace starling::cuda {

namespace {

Error too_old(int ordinal) {
  return judge_driver({.driver = 12020, .needed = 13000, .problem = "insufficient driver"}, ordinal)
      .error();
}

const Module kFake{
    []() -> Result<int> { return too_old(0); },
    [](int ordinal) -> Result<GpuFacts> { return too_old(ordinal); },
    [](int ordinal) -> Result<std::unique_ptr<Device>> { return too_old(ordinal); },
    [](int) {},
    [](Device&, std::span<std::byte>) -> Result<Buffer> { return too_old(0); },
    [](Device&) -> Result<std::unique_ptr<optim::FlatOps>> { return too_old(0); },
    [](Device&, model::DType) -> Result<std::unique_ptr<model::LayerOps>> { return too_old(0); }};

}  // namespace

}  // namespace starling::cuda

STARLING_CUDA_EXPORT const char* starling_cuda_identity();
STARLING_CUDA_EXPORT const starling::cuda::Module* starling_cuda_module();

const char* starling_cuda_identity() {
#if defined(STARLING_FAKE_IDENTITY)
  return STARLING_FAKE_IDENTITY;
#else
  return starling::cuda::kModuleIdentity;
#endif
}

const starling::cuda::Module* starling_cuda_module() { return &starling::cuda::kFake; }
