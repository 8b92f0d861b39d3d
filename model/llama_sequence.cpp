// One sequence, piece by piece: what Llama keeps of it are the rows of its activations.
#include <algorithm>
#include <numeric>

#include "model/llama.h"
#include "model/llama_views.h"

namespace starling::model {

void Llama::rewind(std::int64_t tokens) {
  STARLING_ASSERT(tokens >= 0);
  STARLING_ASSERT(tokens <= sequence_tokens_);
  sequence_tokens_ = tokens;
}

void Llama::extend(DeviceSpan<const float> params, std::span<const std::int32_t> tokens,
                   std::span<float> logits) {
  STARLING_ASSERT(std::ssize(logits) == config_.vocabulary);
  extend(params, tokens);
  const Tensor last = activations_.logits.row_range(0, 1);
  ops_->linear(kLane, {.out = last,
                       .in = activations_.normed.row_range(sequence_tokens_ - 1, 1),
                       .weight = tensor_at(params, head_, {config_.vocabulary, config_.width})});
  device_->copy_out(kLane, std::as_writable_bytes(logits), bytes_of(last));
  wait();
}

double Llama::extend_losses(DeviceSpan<const float> params, const TokenBatch& batch) {
  const std::int64_t first = sequence_tokens_, count = std::ssize(batch.inputs);
  STARLING_ASSERT(std::ssize(batch.targets) == count);
  extend(params, batch.inputs);
  load(batch.targets, host_targets_, activations_.targets, first);
  has_losses_ = false;
  const ConstTensor head = tensor_at(params, head_, {config_.vocabulary, config_.width});
  const std::int64_t chunk = head_chunk();
  for (std::int64_t at = first; at < sequence_tokens_; at += chunk) chunk_losses(head, at, 1.0F);
  std::vector<float> losses(batch.inputs.size());
  device_->copy_out(kLane, std::as_writable_bytes(std::span(losses)),
                    bytes_of(activations_.losses.range(first, count)));
  wait();
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

void Llama::next_token_logits(DeviceSpan<const float> params, std::span<const std::int32_t> tokens,
                              std::span<float> logits) {
  rewind(0);
  extend(params, tokens, logits);
}

void Llama::extend(DeviceSpan<const float> params, std::span<const std::int32_t> tokens) {
  const std::int64_t first = sequence_tokens_, count = std::ssize(tokens);
  STARLING_ASSERT(count >= 1);
  STARLING_ASSERT(first + count <= config_.context);
  STARLING_ASSERT(shape_.recompute != Recompute::kBlocks);
  BatchShape batch = shape_;
  batch.sequences = 1;
  batch.tokens = first + count;
  bind(batch);
  load(tokens, host_inputs_, activations_.inputs, first);
  if (first == 0) ops_->use_weights(kLane, params);
  run_layers(params, batch, first);
  sequence_tokens_ = first + count;
}

}  // namespace starling::model
