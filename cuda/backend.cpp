#include "cuda/backend.h"

#include "base/assert.h"
#include "cuda/module_loader.h"

namespace starling::cuda {

namespace {

// Loaded once, and for good.
Result<const Module*>& the_module() {
  static Result<const Module*> loaded = [] {
    std::error_code ignored;
    return load_useful_module(
        module_places(std::filesystem::read_symlink("/proc/self/exe", ignored)));
  }();
  return loaded;
}

// Whoever has a device has the module that made it.
const Module& module_of_device() {
  STARLING_ASSERT(the_module().ok());
  return *the_module().value();
}

}  // namespace

Result<int> count_gpus() {
  if (!the_module().ok()) return the_module().error();
  return the_module().value()->count_gpus();
}

Result<GpuFacts> gpu_facts(int ordinal) {
  if (!the_module().ok()) return the_module().error();
  return the_module().value()->gpu_facts(ordinal);
}

Result<std::unique_ptr<Device>> make_device(int ordinal) {
  if (!the_module().ok()) return the_module().error();
  return the_module().value()->make_device(ordinal);
}

void leave_gpu(int ordinal) {
  if (the_module().ok()) the_module().value()->leave_gpu(ordinal);
}

Result<Buffer> pin(Device& device, std::span<std::byte> memory) {
  return module_of_device().pin(device, memory);
}

Result<std::unique_ptr<optim::FlatOps>> make_flat_ops(Device& device) {
  return module_of_device().make_flat_ops(device);
}

Result<std::unique_ptr<model::LayerOps>> make_layer_ops(Device& device, model::DType activations) {
  return module_of_device().make_layer_ops(device, activations);
}

}  // namespace starling::cuda
