// TokenBatch: what one step reads. Host memory, borrowed until the call returns.
#pragma once

#include <cstdint>
#include <span>

namespace starling::model {

// What of a layer the backward computes again, instead of the forward keeping it: less memory, and
// more work.
enum class Recompute : std::uint8_t {
  kGates,   // what was gated
  kNorms,   // and what norms gave
  kBlocks,  // and all else but the layer's input: the forward once more
};

struct BatchShape {
  std::int64_t sequences = 1;
  std::int64_t tokens = 1;  // of each sequence
  Recompute recompute = Recompute::kNorms;
  bool large_chunks = false;  // more logits at a time (head_chunk()), as a GPU wants
};

struct TokenBatch {
  std::span<const std::int32_t> inputs;   // (sequences, tokens), ids inside the vocabulary
  std::span<const std::int32_t> targets;  // (sequences, tokens), the token that follows each input
};

}  // namespace starling::model
