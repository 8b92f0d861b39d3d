// Activations: every tensor a step of Llama writes, laid out in one arena, and what is kept from
// the forward for the backward. A pure plan: it allocates nothing and knows no operation.
//
// Kept a token and layer: 6 width + 2 kv_heads * head_width + 3 ffn + heads + 2 floats. Logits
// exist for kHeadChunk tokens at a time, so that a large vocabulary does not set the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/layer_ops.h"
#include "model/llama_config.h"
#include "model/token_batch.h"

namespace starling::model {

inline constexpr std::int64_t kHeadChunk = 1024;  // tokens

struct LayerActivations {  // N = tokens of the batch
  Tensor in;               // (N, width): the residual stream
  Tensor normed_in;        // (N, width)
  Tensor inverse_rms_in;   // (N)
  Tensor qkv;              // (N, qkv_width), after rotation
  Tensor log_sums;         // (sequences, heads, tokens)
  Tensor attended;         // (N, width)
  Tensor mid;              // (N, width): the residual stream after attention
  Tensor normed_mid;       // (N, width)
  Tensor inverse_rms_mid;  // (N)
  Tensor gate_up;          // (N, 2 * ffn)
  Tensor gated;            // (N, ffn)
};

struct Activations {
  // Of the same size whatever the batch.
  Tensor cosines, sines;                     // (context, head_width / 2)
  Tensor losses;                             // (capacity)
  TensorView<std::int32_t> inputs, targets;  // (capacity)

  std::vector<LayerActivations> layers;
  Tensor out;              // (N, width): the residual stream after the last layer
  Tensor normed_out;       // (N, width)
  Tensor inverse_rms_out;  // (N)
  Tensor logits;           // (min(N, kHeadChunk), vocabulary); the backward finds gradients here

  // Shared by all layers, one after the other.
  Tensor stream_grad;    // (N, width): gradient of the residual stream
  Tensor branch;         // (N, width): a branch on its way to the stream, forward or backward
  Tensor gated_grad;     // (N, ffn)
  Tensor gate_up_grad;   // (N, 2 * ffn)
  Tensor attended_grad;  // (N, width), in the memory of gated_grad
  Tensor qkv_grad;       // (N, qkv_width), in the memory of gate_up_grad
};

// How many tokens the arena must hold: the batch, and one sequence of full length for generation.
std::int64_t activation_capacity(const LlamaConfig& config, const BatchShape& batch);
std::size_t activation_arena_bytes(const LlamaConfig& config, const BatchShape& batch);

// Points every view at its place in `arena`, for a batch of at most `capacity` tokens. A row is at
// the same place whatever the batch, so that a longer sequence finds what a shorter one has left.
// Allocates only on the first call for an Activations.
void bind_activations(Activations& views, const LlamaConfig& config, const BatchShape& batch,
                      std::int64_t capacity, std::byte* arena);

// The rows from `first` on.
Tensor rows_from(const Tensor& tensor, std::int64_t first);
// Of all that a layer keeps but log_sums, which are not rows.
LayerActivations rows_from(const LayerActivations& layer, std::int64_t first);

}  // namespace starling::model
