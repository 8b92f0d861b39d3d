// CudaNorms: which kernels compute RMSNorm, and with what grid and scratch. A part of
// KernelLayerOps (layer_ops.cuh), whose calls these are, on a stream.
#pragma once

#include "cuda/kernel_support.cuh"
#include "cuda/scratch.h"
#include "model/layer_ops.h"

namespace starling::cuda {

class CudaNorms {
 public:
  explicit CudaNorms(Device& device) : gain_partial_(device, "a norm's backward") {}

  // For the backward (gpu_memory.h).
  Scratch& scratch() { return gain_partial_; }

  void forward(Stream stream, const model::RmsNorm<>& args);
  // In bf16. `normed` holds the product of `in` and `weight` before.
  void add_and_norm(Stream stream, const model::LinearResidualNorm<>& args);
  void backward(Stream stream, const model::RmsNormBackward<>& args);

 private:
  Scratch gain_partial_;
};

}  // namespace starling::cuda
