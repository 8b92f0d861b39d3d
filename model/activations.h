// Activations: every tensor a step of Llama writes, laid out in one arena, and what is kept from
// the forward for the backward. A pure plan: it allocates nothing and knows no operation.
//
// The residual stream, what the losses need and their gradients are floats; what lies between two
// matrix products is of the type that LayerOps says, A bytes each. Kept a token and layer: 4 (2
// width + heads) + A (width + qkv_width + 2 ffn) bytes; with Recompute::kGates 8 + 2 A width more,
// with kBlocks 4 width, and the rest for one layer. Logits exist for head_chunk() tokens at
// a time, so that a large vocabulary does not set the memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/layer_ops.h"
#include "model/llama_config.h"
#include "model/token_batch.h"

namespace starling::model {

// Tokens that have logits at a time: as many as make 64 MiB of them. But not so few that the
// head's products wait for its weights and their gradients, which every chunk reads and writes:
// twice as many where `between` says that products are fast, in bf16, and in large chunks twice as
// many again: on an H100 the head's products of 2048 tokens take a sixth less than of 1024
// (vocabulary of 32,000, width 1024).
inline constexpr std::int64_t kHeadChunkLeast = 512, kHeadChunkMost = 1024;
inline constexpr std::int64_t kLogitsAtOnce = std::int64_t{1} << 24;
constexpr std::int64_t head_chunk(std::int64_t vocabulary, DType between, bool large = false) {
  constexpr std::int64_t kWhole = 64;  // of these, so that products have no narrow rest
  const std::int64_t logits = kLogitsAtOnce * (between == DType::kBf16 ? 2 : 1) * (large ? 2 : 1);
  const std::int64_t most = kHeadChunkMost * (large ? 2 : 1);
  return std::clamp(logits / vocabulary / kWhole * kWhole, kHeadChunkLeast, most);
}

// N = tokens of the batch. With kBlocks all layers share the memory of everything but `in`.
struct LayerActivations {
  Tensor in;             // (N, width): the residual stream
  TypedTensor qkv;       // (N, qkv_width), after rotation
  Tensor log_sums;       // (sequences, heads, tokens)
  TypedTensor attended;  // (N, width)
  Tensor mid;            // (N, width): the residual stream after attention
  TypedTensor gate_up;   // (N, 2 * ffn)
  // The outputs of both norms, which products multiply, and the factors of their rows. With kGates
  // each layer keeps its own; otherwise both norms of all layers share Activations::normed and
  // inverse_rms, and the backward computes them again.
  TypedTensor normed_in, normed_mid;       // (N, width)
  Tensor inverse_rms_in, inverse_rms_mid;  // (N)
};

struct Activations {
  // Of the same size whatever the batch.
  Tensor cosines, sines;                     // (context, head_width / 2)
  Tensor losses;                             // (capacity)
  TensorView<std::int32_t> inputs, targets;  // (capacity)

  std::vector<LayerActivations> layers;
  Tensor out;  // (N, width): the residual stream after the last layer

  // Shared by all layers, one after the other.
  TypedTensor normed;       // (N, width); after the last layer, what the head multiplies
  Tensor inverse_rms;       // (N): of the same norm
  TypedTensor normed_grad;  // (N, width)
  // (min(N, head_chunk()), vocabulary). The gradient of floats is in the memory of the logits.
  Tensor logits;
  TypedTensor logits_grad;
  // These in the memory of both, which are only there between the last layer and its backward.
  Tensor stream_grad;               // (N, width): gradient of the residual stream
  TypedTensor stream_grad_rounded;  // (N, width): what products multiply; of floats, stream_grad
  TypedTensor gated;                // (N, ffn)
  TypedTensor gate_up_grad;         // (N, 2 * ffn)
  TypedTensor attended_grad;        // (N, width), in the memory of gated
  TypedTensor qkv_grad;             // (N, qkv_width), in the memory of gate_up_grad
};

HeadShape head_shape(const LlamaConfig& config, const BatchShape& batch);
// What training on such batches, or going on with one sequence, brings to LayerOps.
StepShape step_shape(const LlamaConfig& config, const BatchShape& batch, std::size_t parameters);

// How many tokens the arena must hold: the batch, and one sequence of full length for generation.
std::int64_t activation_capacity(const LlamaConfig& config, const BatchShape& batch);
std::size_t activation_arena_bytes(const LlamaConfig& config, const BatchShape& batch,
                                   DType between);

// Points every view at its place in `arena`, for a batch of at most `capacity` tokens. A row is at
// the same place whatever the batch, so that a longer sequence finds what a shorter one has left;
// but with kBlocks, where a layer overwrites what the one before it had.
// `between`: the type of what lies between two matrix products. Allocates only on the first call
// for an Activations.
void bind_activations(Activations& views, const LlamaConfig& config, const BatchShape& batch,
                      std::int64_t capacity, DType between, std::byte* arena);

// The rows from `first` on.
template <class View>
View rows_from(const View& tensor, std::int64_t first) {
  return tensor.row_range(first, tensor.rows() - first);
}
// Of all that a layer keeps but log_sums, which are not rows.
LayerActivations rows_from(const LayerActivations& layer, std::int64_t first);

}  // namespace starling::model
