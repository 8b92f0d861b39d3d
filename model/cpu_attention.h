// Causal attention on the CPU, for one head (forward) or one key head with its group of query heads
// (backward): what cpu_layer_ops.cpp hands to its workers. Queries go in blocks, and a block
// multiplies only the keys its last query may see, which saves nearly half of the work. In bf16 the
// weights and the gradients of the scores are rounded too; sums and softmax are in float.
#pragma once

#include "model/layer_ops.h"
#include "model/packed_gemm.h"

namespace starling::model {

inline constexpr std::int64_t kQueryBlock = 64;

struct HeadIndex {
  std::int64_t sequence = 0, head = 0;
};

// A worker's own.
struct AttentionWorker {
  float* scratch = nullptr;
  PackedGemm* packed = nullptr;  // products in bf16, on this thread alone; null: of floats
};

std::int64_t attention_scratch(std::int64_t tokens);  // in floats
void attention_head(const Attention<>& args, HeadIndex at, const AttentionWorker& worker);
// `at.head` is a key head. Sets its key and value gradients and its group's query gradients.
void attention_head_backward(const AttentionBackward<>& args, HeadIndex at,
                             const AttentionWorker& worker);

}  // namespace starling::model
