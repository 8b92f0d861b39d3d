// What CUDA's operations take of a GPU's memory for themselves, by the shape of a step alone:
// counted here so that a plan for a GPU elsewhere has it too. Pure; knows no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bf16.h"
#include "model/layer_ops.h"

namespace starling::cuda {

// Of matrix products: what NVIDIA advises for Hopper.
inline constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
// Blocks that each add up a part of a gain's gradient (norm_kernels.cuh).
inline constexpr unsigned kGainBlocks = 512;

struct ScratchSizes {  // bytes
  std::size_t weights = 0, gains = 0, attention = 0;
  std::size_t sum() const { return weights + gains + attention; }
};

inline ScratchSizes scratch_sizes(model::DType activations, const model::StepShape& largest) {
  const auto floats = [](std::int64_t count) {
    return static_cast<std::size_t>(count) * sizeof(float);
  };
  const std::size_t rounded = activations == model::DType::kBf16 ? sizeof(bf16) : 0;
  return {.weights = static_cast<std::size_t>(largest.parameters) * rounded,
          .gains = floats(kGainBlocks * largest.width),
          .attention = floats(largest.rows * largest.longest.heads)};
}

}  // namespace starling::cuda
