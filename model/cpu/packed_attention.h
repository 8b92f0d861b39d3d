// PackedAttention: causal attention in bf16 on the CPU, for one head (forward) or one key head with
// its group of query heads (backward), by packed panels (gemm_kernel.h): what cpu_layer_ops.cpp
// hands to its workers, each of which has one.
//
// Scores exist for a block of queries at a time, and of a tile of 32 keys they are turned into
// weights while they are in the nearest cache. Weights, not yet divided by their sum in the
// forward, and gradients of scores are rounded to bf16 as operands; sums and softmax are in float.
// Keys and values are packed once for a head. The backward takes the mean of the gradients of a
// query's weights from its output (Dao et al., "FlashAttention", 2022, appendix B.4).
//
// Memory: some tokens * (700 + 14 head_width) bytes, head_width rounded up to 32.
// Thread: one at a time.
#pragma once

#include <cstddef>

#include "model/cpu/cpu_attention.h"
#include "model/cpu/gemm_kernel.h"
#include "model/layer_ops.h"

namespace starling::model {

class PackedAttention {
 public:
  // `largest`: tokens and head_width of the longest sequence.
  static std::size_t memory_bytes(const GemmKernel& kernel, const HeadShape& largest);
  // `memory`: so much, aligned to 64 bytes, for as long as it lives.
  PackedAttention(const GemmKernel& kernel, const HeadShape& largest, std::byte* memory);

  void head(const Attention<>& args, HeadIndex at);
  // `at.head` is a key head. Sets its key and value gradients and its group's query gradients.
  void head_backward(const AttentionBackward<>& args, HeadIndex at);

 private:
  struct QueryBlock;
  struct Panels;  // packed right operands that follow each other
  std::byte* take(std::size_t bytes);
  Panels pack(std::byte* to, const PanelSource<bf16>& source, PanelSize size) const;
  LeftPanel left(const PanelSource<bf16>& source, PanelSize size, std::byte* memory) const;
  void attend_few(const Attention<>& args, HeadIndex at);
  void attend_rows(const Attention<>& args, HeadIndex at, std::int64_t first, const Panels& keys,
                   const Panels& values);
  void backward_block(const AttentionBackward<>& args, const QueryBlock& block, const Panels& keys,
                      const Panels& values, const Panels& keys_across);
  void weights_of_rows(const AttentionBackward<>& args, const QueryBlock& block, std::int64_t row,
                       const Panels& keys, const Panels& values);
  void query_grad_of_rows(const AttentionBackward<>& args, const QueryBlock& block,
                          std::int64_t row, const Panels& keys_across);
  void add_key_grads(const QueryBlock& block, const bf16* weights, const Panels& rows, float* sums);
  void store_key_grads(const AttentionBackward<>& args, HeadIndex at) const;

  const GemmKernel& kernel_;
  const std::int64_t tokens_, width_;  // there is room for them
  const std::int64_t row_;  // values from row to row of weights and their gradients; not a power of
                            // two, whose rows would share few sets of the nearest cache
  const std::int64_t sum_row_;  // of sums of one head's width
  const std::int64_t block_;    // queries of a block in the backward
  std::byte* memory_;           // null: only counts
  std::size_t taken_ = 0;
  // In memory_: packed operands; then floats; then weights of a block, and gradients of its scores.
  std::byte *keys_, *values_, *keys_across_, *block_grads_, *block_queries_, *left_, *left_too_;
  float *scores_, *tiles_, *key_grads_, *value_grads_;
  bf16 *weights_, *score_grads_;
};

}  // namespace starling::model
