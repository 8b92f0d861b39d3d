// Llama: forward and backward of a Llama decoder, written by hand over flat arenas. Parameters and
// gradients belong to the caller and are laid out by ParamLayout; activations belong to the Llama
// and are allocated once, in create().
//
// Work is enqueued on Lane::kCompute through LayerOps, so the same code runs on every device.
// Besides batches it takes one sequence, piece by piece (llama_sequence.cpp): the keys and values
// of what came before are still in the activations of each layer, so that a piece costs its own
// tokens alone; so not with Recompute::kBlocks. A batch ends the sequence. While it goes on its
// weights stay as they are, and the operations serve no other Llama.
//
// What gives a number to the host waits for it. Thread: the trainer's. Precondition of every
// call: spans of exactly the sizes named, token ids inside the vocabulary (asserted).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/device.h"
#include "base/result.h"
#include "model/activations.h"
#include "model/layer_ops.h"
#include "model/llama_config.h"
#include "model/param_layout.h"
#include "model/token_batch.h"

namespace starling::model {

// kSame: the weights of the last call, which nobody has changed since, or whose rounded copy was
// changed with them (LayerOps::rounded_weights()), so that it need not be made again.
enum class Weights : std::uint8_t { kNew, kSame };
// kSet: whatever was there is lost, as if it had been zeros.
enum class Gradients : std::uint8_t { kAdd, kSet };

class Llama {
 public:
  // `device` and `ops` must outlive the Llama. Errors: kInvalidConfig for a batch the configuration
  // does not allow, kIncompatible for a layout of another configuration, kExhausted for memory.
  static Result<Llama> create(const LlamaConfig& config, const ParamLayout& layout,
                              BatchShape shape, Device& device, LayerOps& ops);

  // Start-up only, before the first batch: lets operations that choose among ways of doing the same
  // try them, and those that keep what repeats keep it, with batches and the scale of training.
  // `gradients` may be any numbers then.
  void rehearse(DeviceSpan<const float> params, DeviceSpan<float> gradients, float scale);
  // Adds scale * d(mean cross entropy) / d(params) into `gradients`, or sets them to it.
  void forward_backward(DeviceSpan<const float> params, DeviceSpan<float> gradients,
                        const TokenBatch& batch, float scale, Weights weights = Weights::kNew,
                        Gradients before = Gradients::kAdd);
  // Losses only.
  void forward(DeviceSpan<const float> params, const TokenBatch& batch);
  // Mean cross entropy, in nats, of the last batch; not scaled. Waits for it.
  float mean_loss();

  // --- one sequence of at most `context` tokens ---
  std::int64_t sequence_tokens() const { return sequence_tokens_; }
  // Keeps only the first `tokens` of it; 0: the next one begins.
  void rewind(std::int64_t tokens);
  // Goes on by at least 1 token.
  void extend(DeviceSpan<const float> params, std::span<const std::int32_t> tokens);
  // The same: the logits (vocabulary) that follow. Waits for them.
  void extend(DeviceSpan<const float> params, std::span<const std::int32_t> tokens,
              std::span<float> logits);
  // Goes on by `batch.inputs`: the sum of the cross entropies, in nats, of what follows each.
  // The losses of the last batch are lost.
  double extend_losses(DeviceSpan<const float> params, const TokenBatch& batch);
  // extend() of a new sequence.
  void next_token_logits(DeviceSpan<const float> params, std::span<const std::int32_t> tokens,
                         std::span<float> logits);

  // Device and host memory for activations, exactly; LayerOps has scratch of its own.
  std::size_t activation_bytes() const {
    return arena_.bytes() + host_losses_.bytes() + host_inputs_.bytes() + host_targets_.bytes();
  }
  // `between`: what LayerOps::activations() says.
  static std::size_t activation_bytes(const LlamaConfig& config, BatchShape shape, DType between);

 private:
  struct LayerRanges {
    Range input_norm, qkv, output, post_norm, gate_up, down;
  };
  // One layer's share of an arena, parameters or gradients.
  template <class T>
  struct LayerTensors {
    TensorView<T> input_norm, qkv, output, post_norm, gate_up, down;
  };

  Llama(const LlamaConfig& config, BatchShape shape, Device& device, LayerOps& ops)
      : config_(config), shape_(shape), device_(&device), ops_(&ops) {}
  void find_ranges(const ParamLayout& layout);
  void load_rotation_tables();

  template <class T>
  LayerTensors<T> layer_tensors(DeviceSpan<T> arena, std::size_t layer) const;
  void norm_in(const LayerTensors<const float>& weights, const LayerActivations& layer);
  void norm_mid(const LayerTensors<const float>& weights, const LayerActivations& layer);
  Rotations<> rotations_from(std::int64_t position) const;

  void bind(const BatchShape& batch);
  TensorView<const std::int32_t> begin(const TokenBatch& batch);
  TensorView<const std::int32_t> load(std::span<const std::int32_t> tokens, const Buffer& host,
                                      const TensorView<std::int32_t>& all, std::int64_t first);
  void run_layers(DeviceSpan<const float> params, const BatchShape& batch, std::int64_t first);
  void attention_block(const LayerTensors<const float>& weights, const LayerActivations& whole,
                       const BatchShape& batch, std::int64_t first);
  void gate(const LayerTensors<const float>& weights, const LayerActivations& layer);
  void ffn_out(DeviceSpan<const float> params, std::size_t layer, std::int64_t first);
  std::int64_t head_chunk() const {
    return model::head_chunk(config_.vocabulary, ops_->activations(), shape_.large_chunks);
  }
  TypedTensor chunk_losses(const ConstTensor& head, std::int64_t first, float scale);
  RepeatKey repeat_key(DeviceSpan<const float> params, DeviceSpan<float> gradients, float scale,
                       Gradients before) const;
  void head_backward(DeviceSpan<const float> params, DeviceSpan<float> gradients, float scale,
                     Gradients before);
  void ffn_backward(const LayerTensors<const float>& weights, const LayerTensors<float>& grads,
                    const LayerActivations& layer, Gradients before);
  void attention_backward(const LayerTensors<const float>& weights,
                          const LayerTensors<float>& grads, const LayerActivations& layer,
                          Gradients before);
  void wait();
  void wait_for(Fence fence);

  LlamaConfig config_;
  BatchShape shape_;
  Device* device_;  // never null
  LayerOps* ops_;   // never null
  std::size_t parameters_ = 0;
  Range embedding_, final_norm_, head_;
  std::vector<LayerRanges> layers_;
  Buffer arena_;
  // Pinned. The tokens are the device's to read until `loaded_` is reached.
  Buffer host_losses_, host_inputs_, host_targets_;
  Fence loaded_;
  Activations activations_;
  bool has_losses_ = false;
  std::int64_t sequence_tokens_ = 0;
};

}  // namespace starling::model
