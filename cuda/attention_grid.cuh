// What attention.cu and attention_backward.cu launch with.
#pragma once

#include "cuda/attention_support.cuh"
#include "model/layer_ops.h"

namespace starling::cuda {

inline Heads heads_of(const model::HeadShape& shape) {
  return {shape.tokens, shape.heads, shape.kv_heads, shape.head_width};
}
inline float scale_of(const model::HeadShape& shape) {
  return 1.0F / sqrtf(static_cast<float>(shape.head_width));
}
inline dim3 grid(unsigned blocks, std::int64_t heads, std::int64_t sequences) {
  return {blocks, static_cast<unsigned>(heads), static_cast<unsigned>(sequences)};
}

}  // namespace starling::cuda
