// The GPU of this machine, for tests: through the module that was built, on cuda:0. Where there is
// none, a test says "skipped: no GPU" and why, which ctest counts.
#pragma once

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

inline Gpu open_gpu(const std::filesystem::path& path) {
  Gpu gpu;
  auto module = cuda::load_module(std::vector<std::filesystem::path>{path});
  if (!module.ok()) return {nullptr, nullptr, module.error().message()};
  gpu.module = module.value().module;
  auto device = gpu.module->make_device(0);
  if (!device.ok()) return {nullptr, nullptr, device.error().message()};
  gpu.device = std::move(device).value();
  return gpu;
}

}  // namespace starling::testing
