// TokenBatch: what one step reads. Host memory, borrowed until the call returns.
#pragma once

#include <cstdint>
#include <span>

namespace starling::model {

struct BatchShape {
  std::int64_t sequences = 1;
  std::int64_t tokens = 1;  // of each sequence
};

struct TokenBatch {
  std::span<const std::int32_t> inputs;   // (sequences, tokens), ids inside the vocabulary
  std::span<const std::int32_t> targets;  // (sequences, tokens), the token that follows each input
};

}  // namespace starling::model
