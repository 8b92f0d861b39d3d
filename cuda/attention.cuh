// CudaAttention: which kernels compute attention, and with what grid and scratch. On the tensor
// cores for bf16 and heads of 32, 64, 96 or 128; others by the plain kernels. A part of
// KernelLayerOps (layer_ops.cuh), in files of its own because its kernels take long to compile.
#pragma once

#include "cuda/kernel_support.cuh"
#include "cuda/scratch.h"
#include "model/layer_ops.h"

namespace starling::cuda {

class CudaAttention {
 public:
  // warpgroups: the GPU has products of warpgroups, as Hopper alone does.
  CudaAttention(Device& device, bool warpgroups)
      : row_dots_(device, "attention's backward"), warpgroups_(warpgroups) {}

  // For the backward (gpu_memory.h).
  Scratch& scratch() { return row_dots_; }

  void forward(Stream stream, const model::Attention<>& args);
  void backward(Stream stream, const model::AttentionBackward<>& args);

 private:
  Scratch row_dots_;
  const bool warpgroups_;
};

}  // namespace starling::cuda
