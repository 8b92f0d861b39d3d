// The GPU of this machine, for tests: through the module that was built, or the one that
// STARLING_CUDA_MODULE in the environment names, on cuda:0. Where there is none, a test says
// "skipped: no GPU" and why, which ctest counts, also where the driver is too old; a module that
// cannot be loaded, and a GPU that cannot be opened, fail it.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/module_loader.h"

namespace starling::testing {

struct Gpu {
  const cuda::Module* module = nullptr;
  std::unique_ptr<Device> device;
  std::string problem{};  // empty: there is one
};

inline Gpu open_gpu(const std::filesystem::path& built) {
  Gpu gpu;
  const char* named = std::getenv("STARLING_CUDA_MODULE");
  const std::filesystem::path path = named != nullptr ? named : built;
  auto module = cuda::load_module(std::vector<std::filesystem::path>{path});
  if (!module.ok()) FAIL(module.error().message());
  gpu.module = module.value().module;
  auto gpus = gpu.module->count_gpus();
  if (!gpus.ok()) return {nullptr, nullptr, gpus.error().message()};
  auto device = gpu.module->make_device(0);
  if (!device.ok()) FAIL(device.error().message());
  gpu.device = std::move(device).value();
  return gpu;
}

}  // namespace starling::testing
