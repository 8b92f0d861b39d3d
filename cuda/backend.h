// The door to the CUDA execution, as plain C++: no CUDA header is needed to call it, so peer/ is
// the same with and without CUDA. Behind it is a module, libstarling_cuda.so, which is loaded at
// the first call (module_loader.h): one binary serves machines with and without CUDA's libraries.
//
// Errors: kUnavailable says what this machine lacks (module, libraries, driver, GPU) and what to do
// about it; kIncompatible: the module is of another build; kExhausted: memory of the GPU.
// Thread: start-up only. Operations refer to their device and are destroyed before it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/device.h"
#include "base/result.h"
#include "model/layer_ops.h"
#include "model/tensor.h"
#include "optim/flat_ops.h"

namespace starling::cuda {

struct GpuFacts {
  std::string name{};                       // "NVIDIA H200"
  int major = 0, minor = 0;                 // compute capability
  std::size_t memory = 0, memory_free = 0;  // bytes; free: what a Device gives, all but a reserve
  int driver = 0;                           // the newest CUDA that the driver knows: 13020 is 13.2
};

// Those that the driver shows to this process; at least one. Takes no memory of any, unlike what
// names one.
Result<int> count_gpus();

// ordinal: of these, from 0.
Result<GpuFacts> gpu_facts(int ordinal);
Result<std::unique_ptr<Device>> make_device(int ordinal);
// Gives back what the process has of a GPU that it will not use; no device of it may be left.
void leave_gpu(int ordinal);

// `device` must come from make_device().
//
// Page-locks memory of others until the buffer goes, which must be before the memory does: copies
// from and to it make nobody wait.
Result<Buffer> pin(Device& device, std::span<std::byte> memory);
// `activations`: kF32, to check, or kBf16.
Result<std::unique_ptr<optim::FlatOps>> make_flat_ops(Device& device);
Result<std::unique_ptr<model::LayerOps>> make_layer_ops(Device& device, model::DType activations);

}  // namespace starling::cuda
