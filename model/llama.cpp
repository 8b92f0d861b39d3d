#include "model/llama.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "model/llama_views.h"

namespace starling::model {

namespace {

// The slots from `first` to `last` as one matrix; the layout keeps them side by side.
Range joined(const ParamLayout& layout, std::string_view first, std::string_view last) {
  const ParamSlot* head = layout.find(first);
  const ParamSlot* tail = layout.find(last);
  STARLING_ASSERT(head != nullptr);
  STARLING_ASSERT(tail != nullptr);
  return {head->range.first, tail->range.first + tail->range.count - head->range.first};
}

Status validate_batch(const LlamaConfig& config, const BatchShape& shape) {
  if (shape.sequences < 1) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("a batch needs at least 1 sequence, not {}", shape.sequences));
  }
  if (shape.tokens < 1 || shape.tokens > config.context) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("the tokens of a sequence must be between 1 and model.context = {}, "
                             "not {}",
                             config.context, shape.tokens));
  }
  return ok_status();
}

std::size_t losses_bytes(const BatchShape& shape) {
  return static_cast<std::size_t>(shape.sequences * shape.tokens) * sizeof(float);
}

std::size_t tokens_bytes(const LlamaConfig& config, const BatchShape& shape) {
  return static_cast<std::size_t>(activation_capacity(config, shape)) * sizeof(std::int32_t);
}

}  // namespace

Result<Llama> Llama::create(const LlamaConfig& config, const ParamLayout& layout, BatchShape shape,
                            Device& device, LayerOps& ops) {
  Result<ParamLayout> expected = ParamLayout::plan(config, layout.fragments());
  if (!expected.ok()) return std::move(expected).error();
  if (expected.value().digest() != layout.digest()) {
    return Error(ErrorCode::kIncompatible, "the parameter layout is of another configuration");
  }
  if (Status valid = validate_batch(config, shape); !valid.ok()) return std::move(valid).error();

  Llama llama(config, shape, device, ops);
  llama.find_ranges(layout);
  const std::size_t arena_bytes = activation_arena_bytes(config, shape, ops.activations());
  Result<Buffer> arena = device.allocate(MemoryKind::kDevice, arena_bytes);
  if (!arena.ok()) return std::move(arena).error().with_context("allocating activations");
  llama.arena_ = std::move(arena).value();
  const struct {
    Buffer& target;
    std::size_t bytes;
  } wanted[] = {{llama.host_losses_, losses_bytes(shape)},
                {llama.host_inputs_, tokens_bytes(config, shape)},
                {llama.host_targets_, tokens_bytes(config, shape)}};
  for (const auto& want : wanted) {
    Result<Buffer> host = device.allocate(MemoryKind::kHostPinned, want.bytes);
    if (!host.ok()) return std::move(host).error().with_context("allocating losses and tokens");
    want.target = std::move(host).value();
  }
  llama.bind(shape);
  llama.load_rotation_tables();
  if (Status room = ops.reserve(step_shape(config, shape, layout.elements())); !room.ok()) {
    return std::move(room).error();
  }
  return llama;
}

std::size_t Llama::activation_bytes(const LlamaConfig& config, BatchShape shape, DType between) {
  return activation_arena_bytes(config, shape, between) + losses_bytes(shape) +
         2 * tokens_bytes(config, shape);
}

void Llama::forward(DeviceSpan<const float> params, const TokenBatch& batch) {
  begin(batch);
  const std::int64_t tokens = activations_.out.rows();
  ops_->use_weights(kLane, params);
  run_layers(params, shape_, 0);
  const ConstTensor head = tensor_at(params, head_, {config_.vocabulary, config_.width});
  const std::int64_t chunk = head_chunk();
  for (std::int64_t first = 0; first < tokens; first += chunk) chunk_losses(head, first, 1.0F);
  has_losses_ = true;
}

float Llama::mean_loss() {
  STARLING_ASSERT(has_losses_);
  const std::int64_t tokens = shape_.sequences * shape_.tokens;
  const DeviceSpan<float> host = host_losses_.as<float>();
  const std::span<float> losses(host.data, host.size);
  STARLING_ASSERT(std::ssize(losses) == tokens);
  device_->copy_out(kLane, std::as_writable_bytes(losses),
                    bytes_of(activations_.losses.range(0, tokens)));
  wait();
  double sum = 0.0;
  for (const float loss : losses) sum += loss;
  return static_cast<float>(sum / static_cast<double>(tokens));
}

void Llama::find_ranges(const ParamLayout& layout) {
  parameters_ = layout.elements();
  const auto one = [&](std::string_view name) { return joined(layout, name, name); };
  embedding_ = one("model.embed_tokens.weight");
  final_norm_ = one("model.norm.weight");
  head_ = config_.tied_head ? embedding_ : one("lm_head.weight");
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    layers_.push_back({
        .input_norm = one(prefix + "input_layernorm.weight"),
        .qkv =
            joined(layout, prefix + "self_attn.q_proj.weight", prefix + "self_attn.v_proj.weight"),
        .output = one(prefix + "self_attn.o_proj.weight"),
        .post_norm = one(prefix + "post_attention_layernorm.weight"),
        .gate_up = joined(layout, prefix + "mlp.gate_proj.weight", prefix + "mlp.up_proj.weight"),
        .down = one(prefix + "mlp.down_proj.weight"),
    });
  }
}

void Llama::load_rotation_tables() {
  const std::int64_t half = config_.head_width() / 2;
  std::vector<float> cosines, sines;
  for (std::int64_t position = 0; position < config_.context; ++position) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * rope_frequency(config_, i);
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  device_->copy_in(kLane, bytes_of(activations_.cosines), std::as_bytes(std::span(cosines)));
  device_->copy_in(kLane, bytes_of(activations_.sines), std::as_bytes(std::span(sines)));
  device_->drain();
}

template <class T>
Llama::LayerTensors<T> Llama::layer_tensors(DeviceSpan<T> arena, std::size_t layer) const {
  const LayerRanges& at = layers_[layer];
  const std::int64_t width = config_.width, ffn = config_.ffn;
  return {
      .input_norm = tensor_at(arena, at.input_norm, {width}),
      .qkv = tensor_at(arena, at.qkv, {config_.qkv_width(), width}),
      .output = tensor_at(arena, at.output, {width, width}),
      .post_norm = tensor_at(arena, at.post_norm, {width}),
      .gate_up = tensor_at(arena, at.gate_up, {2 * ffn, width}),
      .down = tensor_at(arena, at.down, {width, ffn}),
  };
}
template Llama::LayerTensors<const float> Llama::layer_tensors(DeviceSpan<const float>,
                                                               std::size_t) const;
template Llama::LayerTensors<float> Llama::layer_tensors(DeviceSpan<float>, std::size_t) const;

// A batch begins: what the last one was copied from may be written to again.
void Llama::bind(const BatchShape& batch) {
  wait_for(loaded_);
  bind_activations(activations_, config_, batch, activation_capacity(config_, shape_),
                   ops_->activations(), arena_.as<std::byte>().data);
}

// Whatever was kept of a sequence is lost. Returns the inputs, on the device.
TensorView<const std::int32_t> Llama::begin(const TokenBatch& batch) {
  bind(shape_);
  sequence_tokens_ = 0;
  STARLING_ASSERT(std::ssize(batch.inputs) == activations_.out.rows());
  STARLING_ASSERT(std::ssize(batch.targets) == activations_.out.rows());
  load(batch.targets, host_targets_, activations_.targets, 0);
  return load(batch.inputs, host_inputs_, activations_.inputs, 0);
}

// Checked here, before any id becomes an index on a device. The caller's memory may be any, and is
// free again when this returns: the device reads a copy of it, in its own time.
TensorView<const std::int32_t> Llama::load(std::span<const std::int32_t> tokens, const Buffer& host,
                                           const TensorView<std::int32_t>& all,
                                           std::int64_t first) {
  for (const std::int32_t token : tokens) {
    STARLING_ASSERT(token >= 0);
    STARLING_ASSERT(token < config_.vocabulary);
  }
  const TensorView<std::int32_t> target = all.range(first, std::ssize(tokens));
  std::int32_t* const copied = host.as<std::int32_t>().data + first;
  std::copy(tokens.begin(), tokens.end(), copied);
  device_->copy_in(kLane, bytes_of(target), std::as_bytes(std::span(copied, tokens.size())));
  loaded_ = device_->record(kLane);
  return target;
}

// Computes the rows from `first` on; those before it, if any, are of the same sequence and there.
void Llama::run_layers(DeviceSpan<const float> params, const BatchShape& batch,
                       std::int64_t first) {
  STARLING_ASSERT(params.size == parameters_);
  Activations& act = activations_;
  ops_->embed(kLane, {.out = rows_from(act.layers.front().in, first),
                      .weight = tensor_at(params, embedding_, {config_.vocabulary, config_.width}),
                      .tokens = act.inputs.range(first, act.out.rows() - first)});
  norm_in(layer_tensors(params, 0), rows_from(act.layers.front(), first));
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const LayerTensors<const float> weights = layer_tensors(params, layer);
    attention_block(weights, act.layers[layer], batch, first);
    gate(weights, rows_from(act.layers[layer], first));
    ffn_out(params, layer, first);
  }
}

// From what norm_in() gave to what norm_mid() would.
void Llama::attention_block(const LayerTensors<const float>& weights, const LayerActivations& whole,
                            const BatchShape& batch, std::int64_t first) {
  const HeadShape heads = head_shape(config_, batch);
  HeadShape turned = heads;
  turned.tokens -= first;
  const LayerActivations layer = rows_from(whole, first);
  ops_->linear_rope(kLane, {.qkv = layer.qkv,
                            .in = layer.normed_in,
                            .weight = weights.qkv,
                            .rotations = rotations_from(first),
                            .shape = turned});
  ops_->attention(kLane, {.out = whole.attended,
                          .log_sums = whole.log_sums,
                          .qkv = whole.qkv,
                          .shape = heads,
                          .first = first});
  ops_->linear_residual_norm(kLane, {.out = layer.mid,
                                     .normed = layer.normed_mid,
                                     .inverse_rms = layer.inverse_rms_mid,
                                     .residual = layer.in,
                                     .in = layer.attended,
                                     .weight = weights.output,
                                     .gain = weights.post_norm,
                                     .epsilon = config_.norm_epsilon});
}

void Llama::gate(const LayerTensors<const float>& weights, const LayerActivations& layer) {
  ops_->linear_swiglu(kLane, {.gate_up = layer.gate_up,
                              .gated = activations_.gated.row_range(0, layer.mid.rows()),
                              .in = layer.normed_mid,
                              .weight = weights.gate_up});
}

// To the next layer and its first norm, or to the last norm of all.
void Llama::ffn_out(DeviceSpan<const float> params, std::size_t layer, std::int64_t first) {
  const Activations& act = activations_;
  const LayerActivations at = rows_from(act.layers[layer], first);
  const std::int64_t rows = at.mid.rows();
  const bool is_last = layer + 1 == layers_.size();
  const std::size_t following = is_last ? layer : layer + 1;
  const LayerActivations next = rows_from(act.layers[following], first);
  ops_->linear_residual_norm(
      kLane, {.out = is_last ? rows_from(act.out, first) : next.in,
              .normed = is_last ? rows_from(act.normed, first) : next.normed_in,
              .inverse_rms = is_last ? act.inverse_rms.range(first, rows) : next.inverse_rms_in,
              .residual = at.mid,
              .in = act.gated.row_range(0, rows),
              .weight = layer_tensors(params, layer).down,
              .gain = is_last ? tensor_at(params, final_norm_, {config_.width})
                              : layer_tensors(params, following).input_norm,
              .epsilon = config_.norm_epsilon});
}

void Llama::norm_in(const LayerTensors<const float>& weights, const LayerActivations& layer) {
  ops_->rms_norm(kLane, {.out = layer.normed_in,
                         .inverse_rms = layer.inverse_rms_in,
                         .in = layer.in,
                         .gain = weights.input_norm,
                         .epsilon = config_.norm_epsilon});
}

void Llama::norm_mid(const LayerTensors<const float>& weights, const LayerActivations& layer) {
  ops_->rms_norm(kLane, {.out = layer.normed_mid,
                         .inverse_rms = layer.inverse_rms_mid,
                         .in = layer.mid,
                         .gain = weights.post_norm,
                         .epsilon = config_.norm_epsilon});
}

Rotations<> Llama::rotations_from(std::int64_t position) const {
  return {rows_from(activations_.cosines, position), rows_from(activations_.sines, position)};
}

// The losses of a chunk of tokens from `first`; returns the gradients of their logits.
TypedTensor Llama::chunk_losses(const ConstTensor& head, std::int64_t first, float scale) {
  const Activations& act = activations_;
  const std::int64_t count = std::min(head_chunk(), act.out.rows() - first);
  const Tensor logits = act.logits.row_range(0, count);
  const TypedTensor gradient = act.logits_grad.row_range(0, count);
  ops_->linear(kLane, {.out = logits, .in = act.normed.row_range(first, count), .weight = head});
  ops_->cross_entropy(kLane, {.gradient = gradient,
                              .losses = act.losses.range(first, count),
                              .logits = logits,
                              .targets = act.targets.range(first, count),
                              .scale = scale});
  return gradient;
}

void Llama::wait() { wait_for(device_->record(kLane)); }

// Spins: the host has nothing to do before it knows the answer, and Device offers no blocking wait
// for one lane.
void Llama::wait_for(Fence fence) {
  while (!device_->reached(fence)) {
  }
}

}  // namespace starling::model
