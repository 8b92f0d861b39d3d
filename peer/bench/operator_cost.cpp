#include "peer/bench/operator_cost.h"

#include <algorithm>

namespace starling::peer {

namespace {

template <class View>
double size(const View& view) {
  return static_cast<double>(view.elements());
}

// Of all these arrays.
template <class... Views>
double bytes(const Views&... views) {
  const auto of_one = [](const model::ConstTypedTensor& view) {
    return static_cast<double>(model::bytes_of_one(view.dtype));
  };
  return ((size(views) * of_one(views)) + ...);
}

// Operations of a product with a matrix of as many outputs.
template <class View>
double product(const View& in, std::int64_t outputs) {
  return 2 * size(in) * static_cast<double>(outputs);
}

// Of queries and keys.
double rotation(const model::HeadShape& shape) {
  const std::int64_t rows = shape.sequences * shape.tokens;
  return 3 * static_cast<double>(rows * (shape.heads + shape.kv_heads) * shape.head_width);
}

// Pairs of a query and a key that it sees, over all heads and sequences.
double causal_pairs(const model::HeadShape& shape, std::int64_t first) {
  const auto all = static_cast<double>(shape.tokens), left_out = static_cast<double>(first);
  return static_cast<double>(shape.sequences * shape.heads) *
         (all * (all + 1) - left_out * (left_out + 1)) / 2;
}

}  // namespace

Cost per_value(double values, double arrays, double operations) {
  return {.operations = operations * values, .bytes = arrays * sizeof(float) * values};
}

Cost cost_of(const model::Embed<>& args) { return per_value(size(args.out), 2, 0); }

Cost cost_of(const model::EmbedBackward<>& args) {
  const double touched = std::min(size(args.out_grad), size(args.weight_grad));
  return {.operations = size(args.out_grad),
          .bytes = bytes(args.out_grad) + 2 * sizeof(float) * touched};
}

Cost cost_of(const model::RmsNorm<>& args) {
  return {.operations = 4 * size(args.in), .bytes = bytes(args.in, args.out)};
}

Cost cost_of(const model::RmsNormBackward<>& args) {
  const bool is_apart = args.in_grad_rounded.dtype != model::DType::kF32;
  return {.operations = 9 * size(args.in),
          .bytes = bytes(args.in, args.out_grad, args.in_grad, args.in_grad) +
                   (is_apart ? bytes(args.in_grad_rounded) : 0)};
}

Cost cost_of(const model::Linear<>& args) {
  return {.operations = product(args.in, args.weight.rows()),
          .bytes = bytes(args.in, args.weight, args.out)};
}

Cost cost_of(const model::LinearBackward<>& args) {
  return {.operations = 2 * product(args.in, args.weight.rows()),
          .bytes = bytes(args.out_grad, args.in, args.in_grad, args.weight, args.weight_grad) +
                   (args.adds ? bytes(args.weight_grad) : 0)};
}

Cost cost_of(const model::LinearResidual<>& args) {
  return {.operations = product(args.in, args.weight.rows()) + size(args.out),
          .bytes = bytes(args.in, args.weight, args.residual, args.out)};
}

Cost cost_of(const model::LinearResidualNorm<>& args) {
  return {.operations = product(args.in, args.weight.rows()) + 5 * size(args.out),
          .bytes = bytes(args.in, args.weight, args.residual, args.out, args.normed)};
}

Cost cost_of(const model::LinearRope<>& args) {
  return {.operations = product(args.in, args.weight.rows()) + rotation(args.shape),
          .bytes = bytes(args.in, args.weight, args.qkv)};
}

Cost cost_of(const model::Attention<>& args) {
  const double width = static_cast<double>(args.shape.head_width);
  return {.operations = (4 * width + 1) * causal_pairs(args.shape, args.first),
          .bytes = bytes(args.qkv, args.out)};
}

Cost cost_of(const model::AttentionBackward<>& args) {
  const double width = static_cast<double>(args.shape.head_width);
  return {.operations = (10 * width + 1) * causal_pairs(args.shape, 0) + rotation(args.shape),
          .bytes = bytes(args.qkv, args.qkv_grad, args.out, args.out_grad)};
}

Cost cost_of(const model::LinearSwiGlu<>& args) {
  return {.operations = product(args.in, args.weight.rows()) + 5 * size(args.gated),
          .bytes = bytes(args.in, args.weight, args.gate_up, args.gated)};
}

Cost cost_of(const model::SwiGluLinearBackward<>& args) {
  return {.operations = 2 * product(args.gated, args.weight.rows()) + 10 * size(args.gated),
          .bytes = bytes(args.out_grad, args.gate_up, args.gate_up_grad, args.gated, args.weight,
                         args.weight_grad) +
                   (args.adds ? bytes(args.weight_grad) : 0)};
}

Cost cost_of(const model::CrossEntropy<>& args) {
  return {.operations = 4 * size(args.logits), .bytes = bytes(args.logits, args.gradient)};
}

double training_operations_per_token(const model::LlamaConfig& config, std::int64_t tokens) {
  const std::int64_t layer = config.width * (config.qkv_width() + config.width + 3 * config.ffn);
  const std::int64_t weights = config.layers * layer + config.vocabulary * config.width;
  return 6.0 * static_cast<double>(weights + config.layers * tokens * config.width);
}

}  // namespace starling::peer
