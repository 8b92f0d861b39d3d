// Causal attention of floats on the CPU, for one head (forward) or one key head with its group of
// query heads (backward): what cpu_layer_ops.cpp hands to its workers. Queries go in blocks, and a
// block multiplies only the keys its last query may see, which saves nearly half of the work. The
// counterpart in bf16 is packed_attention.h.
#pragma once

#include <cmath>

#include "model/layer_ops.h"

namespace starling::model {

inline constexpr std::int64_t kQueryBlock = 64;

struct HeadIndex {
  std::int64_t sequence = 0, head = 0;
};

inline float score_scale(const HeadShape& shape) {
  return 1.0F / std::sqrt(static_cast<float>(shape.head_width));
}

// The first values of one head's queries, keys and values in a packed tensor of one sequence.
template <class T>
struct PackedHead {
  T *query, *key, *value;
};

template <class T>
PackedHead<T> packed_head(T* qkv, const HeadShape& shape, HeadIndex query_head) {
  T* sequence = qkv + query_head.sequence * shape.tokens * shape.packed_width();
  const std::int64_t key_head = query_head.head / shape.group();
  return {sequence + query_head.head * shape.head_width,
          sequence + (shape.heads + key_head) * shape.head_width,
          sequence + (shape.heads + shape.kv_heads + key_head) * shape.head_width};
}

// `scratch`: attention_scratch() floats of the worker's own.
std::int64_t attention_scratch(std::int64_t tokens);
void attention_head(const Attention<>& args, HeadIndex at, float* scratch);
// `at.head` is a key head. Sets its key and value gradients and its group's query gradients, all
// of them still turned.
void attention_head_backward(const AttentionBackward<>& args, HeadIndex at, float* scratch);

}  // namespace starling::model
