#include "model/activations.h"

#include <algorithm>

namespace starling::model {

namespace {

constexpr std::int64_t kAlignment = 64;  // bytes: one cache line

// Hands out consecutive aligned pieces; with no arena it only counts.
class Carver {
 public:
  explicit Carver(std::byte* arena) : arena_(arena) {}

  template <class T>
  void carve(TensorView<T>& view, const Shape& shape) {
    carve(view, shape, shape.elements());
  }
  // With room for more than it shows.
  template <class T>
  void carve(TensorView<T>& view, const Shape& shape, std::int64_t room) {
    STARLING_ASSERT(room >= shape.elements());
    view = {reinterpret_cast<T*>(take(room * std::int64_t{sizeof(T)})), shape};
  }
  void carve(TypedTensor& view, const Shape& shape, std::int64_t room) {
    STARLING_ASSERT(room >= shape.elements());
    view = {take(room * bytes_of_one(view.dtype)), view.dtype, shape};
  }
  // Two views that are never in use at the same time begin at one place.
  void move_to(std::int64_t bytes) { bytes_ = bytes; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* take(std::int64_t bytes) {
    std::byte* at = arena_ == nullptr ? nullptr : arena_ + bytes_;
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }

  std::byte* arena_;
  std::int64_t bytes_ = 0;
};

// For every token of the batch a row of `columns`, with room for `capacity` of them.
class RowCarver {
 public:
  RowCarver(Carver& carver, std::int64_t tokens, std::int64_t capacity, DType between)
      : carver_(carver), tokens_(tokens), capacity_(capacity), between_(between) {}

  void rows(Tensor& view, std::int64_t columns) {
    carver_.carve(view, {tokens_, columns}, capacity_ * columns);
  }
  void rows(TypedTensor& view, std::int64_t columns) {
    view.dtype = between_;
    carver_.carve(view, {tokens_, columns}, capacity_ * columns);
  }
  void list(Tensor& view) { carver_.carve(view, {tokens_}, capacity_); }
  void log_sums(Tensor& view, const Shape& shape) {
    carver_.carve(view, shape, capacity_ * (shape.elements() / tokens_));
  }
  void rows_shared(TypedTensor& first, std::int64_t first_columns, TypedTensor& second,
                   std::int64_t second_columns) {
    const std::int64_t start = carver_.bytes();
    rows(first, first_columns);
    const std::int64_t end = carver_.bytes();
    carver_.move_to(start);
    rows(second, second_columns);
    carver_.move_to(std::max(carver_.bytes(), end));
  }

 private:
  Carver& carver_;
  std::int64_t tokens_, capacity_;
  DType between_;
};

void carve_kept(RowCarver& carver, LayerActivations& layer, const LlamaConfig& config,
                const BatchShape& batch) {
  carver.rows(layer.qkv, config.qkv_width());
  carver.log_sums(layer.log_sums, {batch.sequences, config.heads, batch.tokens});
  carver.rows(layer.attended, config.width);
  carver.rows(layer.mid, config.width);
  carver.rows(layer.gate_up, 2 * config.ffn);
  if (batch.recompute != Recompute::kGates) return;
  carver.rows(layer.normed_in, config.width);
  carver.list(layer.inverse_rms_in);
  carver.rows(layer.normed_mid, config.width);
  carver.list(layer.inverse_rms_mid);
}

void carve_layers(RowCarver& carver, std::vector<LayerActivations>& layers,
                  const LlamaConfig& config, const BatchShape& batch) {
  for (LayerActivations& layer : layers) {
    const bool is_first = &layer == &layers.front();
    if (batch.recompute == Recompute::kBlocks && !is_first) layer = layers.front();
    carver.rows(layer.in, config.width);
    if (batch.recompute == Recompute::kBlocks && !is_first) continue;
    carve_kept(carver, layer, config, batch);
  }
}

void share_norms(Activations& views) {
  for (LayerActivations& layer : views.layers) {
    layer.normed_in = layer.normed_mid = views.normed;
    layer.inverse_rms_in = layer.inverse_rms_mid = views.inverse_rms;
  }
}

// `floats` as an activation: where that is of floats too, no more memory.
void carve_rounded(Carver& carver, TypedTensor& view, const Tensor& floats, DType between,
                   std::int64_t room) {
  view = floats;
  if (between == DType::kF32) return;
  view.dtype = between;
  carver.carve(view, floats.shape, room);
}

std::size_t carve_all(Activations& views, const LlamaConfig& config, const BatchShape& batch,
                      std::int64_t capacity, DType between, std::byte* arena) {
  const std::int64_t tokens = batch.sequences * batch.tokens;
  STARLING_ASSERT(tokens <= capacity);
  Carver carver(arena);
  RowCarver of_batch(carver, tokens, capacity, between);
  carver.carve(views.cosines, {config.context, config.head_width() / 2});
  carver.carve(views.sines, {config.context, config.head_width() / 2});
  carver.carve(views.losses, {capacity});
  carver.carve(views.inputs, {capacity});
  carver.carve(views.targets, {capacity});
  views.layers.resize(static_cast<std::size_t>(config.layers));
  carve_layers(of_batch, views.layers, config, batch);
  of_batch.rows(views.out, config.width);
  of_batch.rows(views.normed, config.width);
  of_batch.list(views.inverse_rms);
  if (batch.recompute != Recompute::kGates) share_norms(views);
  of_batch.rows(views.normed_grad, config.width);
  const std::int64_t shared = carver.bytes();
  const std::int64_t chunk = head_chunk(config.vocabulary, between, batch.large_chunks);
  const Shape logits{std::min(tokens, chunk), config.vocabulary};
  const std::int64_t room = std::min(capacity, chunk) * config.vocabulary;
  carver.carve(views.logits, logits, room);
  carve_rounded(carver, views.logits_grad, views.logits, between, room);
  const std::int64_t end = carver.bytes();
  carver.move_to(shared);
  of_batch.rows(views.stream_grad, config.width);
  carve_rounded(carver, views.stream_grad_rounded, views.stream_grad, between,
                capacity * config.width);
  of_batch.rows_shared(views.gated, config.ffn, views.attended_grad, config.width);
  of_batch.rows_shared(views.gate_up_grad, 2 * config.ffn, views.qkv_grad, config.qkv_width());
  return static_cast<std::size_t>(std::max(carver.bytes(), end));
}

}  // namespace

HeadShape head_shape(const LlamaConfig& config, const BatchShape& batch) {
  return {.sequences = batch.sequences,
          .tokens = batch.tokens,
          .heads = config.heads,
          .kv_heads = config.kv_heads,
          .head_width = config.head_width()};
}

StepShape step_shape(const LlamaConfig& config, const BatchShape& batch, std::size_t parameters) {
  return {.longest = head_shape(config, {.sequences = 1, .tokens = config.context}),
          .rows = batch.sequences * batch.tokens,
          .width = config.width,
          .parameters = static_cast<std::int64_t>(parameters)};
}

std::int64_t activation_capacity(const LlamaConfig& config, const BatchShape& batch) {
  return std::max(batch.sequences * batch.tokens, config.context);
}

std::size_t activation_arena_bytes(const LlamaConfig& config, const BatchShape& batch,
                                   DType between) {
  // Every size is a function of the capacity alone.
  Activations views;
  const std::int64_t capacity = activation_capacity(config, batch);
  BatchShape all = batch;
  all.sequences = 1;
  all.tokens = capacity;
  return carve_all(views, config, all, capacity, between, nullptr);
}

void bind_activations(Activations& views, const LlamaConfig& config, const BatchShape& batch,
                      std::int64_t capacity, DType between, std::byte* arena) {
  carve_all(views, config, batch, capacity, between, arena);
}

LayerActivations rows_from(const LayerActivations& layer, std::int64_t first) {
  const auto list_from = [first](const Tensor& list) {
    return list.range(first, list.elements() - first);
  };
  return {.in = rows_from(layer.in, first),
          .qkv = rows_from(layer.qkv, first),
          .log_sums = layer.log_sums,
          .attended = rows_from(layer.attended, first),
          .mid = rows_from(layer.mid, first),
          .gate_up = rows_from(layer.gate_up, first),
          .normed_in = rows_from(layer.normed_in, first),
          .normed_mid = rows_from(layer.normed_mid, first),
          .inverse_rms_in = list_from(layer.inverse_rms_in),
          .inverse_rms_mid = list_from(layer.inverse_rms_mid)};
}

}  // namespace starling::model
