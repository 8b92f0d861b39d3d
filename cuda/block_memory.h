// The shared memory that blocks of rows need, which grows with two settings of a model, and whether
// a GPU has so much: judged from plain numbers before anything is launched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "model/layer_ops.h"

namespace starling::cuda {

// The backward of a norm: a sum for each column.
inline std::size_t norm_backward_bytes(std::int64_t width) {
  return static_cast<std::size_t>(width) * sizeof(float);
}
// Attention without tensor cores: two rows of a head, and beside each a weight for every lane.
inline std::size_t plain_attention_bytes(std::int64_t width) {
  constexpr std::int64_t kLanes = 32;
  return static_cast<std::size_t>(2 * (width + kLanes)) * sizeof(float);
}

// `most`: bytes of a block. kInvalidConfig names the setting.
inline Status judge_block_memory(const model::StepShape& largest, std::size_t most) {
  // block_reduce()'s, beside the row's, and up to where a row may begin (STARLING_DYNAMIC_SHARED).
  constexpr std::size_t kReduced = 1024;
  const auto refused = [most](const std::string& setting, std::int64_t value, const char* remedy) {
    const std::string limit = std::to_string(most) + " bytes";
    return Error(ErrorCode::kInvalidConfig, setting + " = " + std::to_string(value) +
                                                " is too large for this GPU, whose blocks share " +
                                                limit + ": " + remedy);
  };
  if (norm_backward_bytes(largest.width) + kReduced > most) {
    return refused("model.width", largest.width, "lower it");
  }
  const std::int64_t head = largest.longest.head_width;
  if (plain_attention_bytes(head) > most) {
    return refused("model.width / model.heads", head, "raise model.heads");
  }
  return ok_status();
}

}  // namespace starling::cuda
