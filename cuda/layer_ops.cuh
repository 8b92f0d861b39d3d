// KernelLayerOps: model::LayerOps by kernels of ours and a library's matrix products. The GPU's
// (cuda_layer_ops.cu) and, for tests, one on the emulator: they differ in streams and products
// alone. In kBf16 every product multiplies bf16: weights are rounded into scratch before it,
// gradients by what computes them. Nothing is added to by two blocks, so that results are the same
// bits each time.
//
// All calls on one lane, or on lanes that fences order: they share scratch. Where a call needs more
// than was reserved, it grows; a device without room ends the process then.
#pragma once

#include <functional>
#include <memory>

#include "cuda/kernel_support.cuh"
#include "cuda/products.h"
#include "cuda/repeats.h"
#include "model/layer_ops.h"

namespace starling::cuda {

struct LayerOpsParts {
  Device* device;  // outlives the operations; never null
  std::function<Stream(Lane)> stream;
  std::unique_ptr<Products> products;
  std::unique_ptr<Repeats> repeats{};                     // none: all is enqueued anew
  std::size_t shared_bytes_max = std::size_t{227} << 10;  // of a block; an H100's
  bool warpgroups = false;  // the GPU has products of warpgroups (warpgroup_support.cuh)
};

// activations: kF32, to check with, or kBf16.
std::unique_ptr<model::LayerOps> make_kernel_layer_ops(LayerOpsParts parts,
                                                       model::DType activations);

}  // namespace starling::cuda
