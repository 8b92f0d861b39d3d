#include "model/activations.h"

#include <algorithm>

namespace starling::model {

namespace {

constexpr std::int64_t kAlignment = 16;  // in words of four bytes: one cache line

// Hands out consecutive aligned pieces; with no arena it only counts.
class Carver {
 public:
  explicit Carver(std::byte* arena) : arena_(arena) {}

  template <class T>
  void carve(TensorView<T>& view, const Shape& shape) {
    static_assert(sizeof(T) == 4);
    view = {arena_ == nullptr ? nullptr : reinterpret_cast<T*>(arena_) + words_, shape};
    words_ += (shape.elements() + kAlignment - 1) / kAlignment * kAlignment;
  }
  // Two views that are never in use at the same time.
  void carve_shared(Tensor& first, const Shape& first_shape, Tensor& second,
                    const Shape& second_shape) {
    const std::int64_t start = words_;
    carve(first, first_shape);
    const std::int64_t end = words_;
    words_ = start;
    carve(second, second_shape);
    words_ = std::max(words_, end);
  }
  std::size_t bytes() const { return static_cast<std::size_t>(words_) * 4; }

 private:
  std::byte* arena_;
  std::int64_t words_ = 0;
};

void carve_layer(Carver& carver, LayerActivations& layer, const LlamaConfig& config,
                 const BatchShape& batch) {
  const std::int64_t tokens = batch.sequences * batch.tokens;
  carver.carve(layer.in, {tokens, config.width});
  carver.carve(layer.normed_in, {tokens, config.width});
  carver.carve(layer.inverse_rms_in, {tokens});
  carver.carve(layer.qkv, {tokens, config.qkv_width()});
  carver.carve(layer.log_sums, {batch.sequences, config.heads, batch.tokens});
  carver.carve(layer.attended, {tokens, config.width});
  carver.carve(layer.mid, {tokens, config.width});
  carver.carve(layer.normed_mid, {tokens, config.width});
  carver.carve(layer.inverse_rms_mid, {tokens});
  carver.carve(layer.gate_up, {tokens, 2 * config.ffn});
  carver.carve(layer.gated, {tokens, config.ffn});
}

std::size_t carve_all(Activations& views, const LlamaConfig& config, const BatchShape& batch,
                      std::int64_t capacity, std::byte* arena) {
  const std::int64_t tokens = batch.sequences * batch.tokens;
  STARLING_ASSERT(tokens <= capacity);
  Carver carver(arena);
  carver.carve(views.cosines, {config.context, config.head_width() / 2});
  carver.carve(views.sines, {config.context, config.head_width() / 2});
  carver.carve(views.losses, {capacity});
  carver.carve(views.inputs, {capacity});
  carver.carve(views.targets, {capacity});
  views.layers.resize(static_cast<std::size_t>(config.layers));
  for (LayerActivations& layer : views.layers) carve_layer(carver, layer, config, batch);
  carver.carve(views.out, {tokens, config.width});
  carver.carve(views.normed_out, {tokens, config.width});
  carver.carve(views.inverse_rms_out, {tokens});
  carver.carve(views.logits, {std::min(tokens, kHeadChunk), config.vocabulary});
  carver.carve(views.stream_grad, {tokens, config.width});
  carver.carve(views.branch, {tokens, config.width});
  carver.carve_shared(views.gated_grad, {tokens, config.ffn}, views.attended_grad,
                      {tokens, config.width});
  carver.carve_shared(views.gate_up_grad, {tokens, 2 * config.ffn}, views.qkv_grad,
                      {tokens, config.qkv_width()});
  return carver.bytes();
}

}  // namespace

std::int64_t activation_capacity(const LlamaConfig& config, const BatchShape& batch) {
  return std::max(batch.sequences * batch.tokens, config.context);
}

std::size_t activation_arena_bytes(const LlamaConfig& config, const BatchShape& batch) {
  // Every size is a function of the token count alone, and grows with it.
  Activations views;
  const std::int64_t capacity = activation_capacity(config, batch);
  return carve_all(views, config, {.sequences = 1, .tokens = capacity}, capacity, nullptr);
}

void bind_activations(Activations& views, const LlamaConfig& config, const BatchShape& batch,
                      std::int64_t capacity, std::byte* arena) {
  carve_all(views, config, batch, capacity, arena);
}

}  // namespace starling::model
