#include "peer/operator_cost.h"

#include <algorithm>

namespace starling::peer {

namespace {

constexpr double kBytes = sizeof(float);

template <class View>
double size(const View& view) {
  return static_cast<double>(view.elements());
}

// Pairs of a query and a key that it sees, over all heads and sequences.
double causal_pairs(const model::HeadShape& shape, std::int64_t first) {
  const auto all = static_cast<double>(shape.tokens), left_out = static_cast<double>(first);
  return static_cast<double>(shape.sequences * shape.heads) *
         (all * (all + 1) - left_out * (left_out + 1)) / 2;
}

}  // namespace

Cost per_value(double values, double arrays, double operations) {
  return {.operations = operations * values, .bytes = arrays * kBytes * values};
}

Cost cost_of(const model::Embed<>& args) { return per_value(size(args.out), 2, 0); }

Cost cost_of(const model::EmbedBackward<>& args) {
  const double touched = std::min(size(args.out_grad), size(args.weight_grad));
  return {.operations = size(args.out_grad), .bytes = kBytes * (size(args.out_grad) + 2 * touched)};
}

Cost cost_of(const model::RmsNorm<>& args) { return per_value(size(args.out), 2, 4); }

Cost cost_of(const model::RmsNormBackward<>& args) { return per_value(size(args.in), 4, 9); }

Cost cost_of(const model::Linear<>& args) {
  return {.operations = 2 * size(args.in) * static_cast<double>(args.weight.rows()),
          .bytes = kBytes * (size(args.in) + size(args.weight) + size(args.out))};
}

Cost cost_of(const model::LinearBackward<>& args) {
  return {.operations = 4 * size(args.in) * static_cast<double>(args.weight.rows()),
          .bytes = kBytes * (size(args.out_grad) + size(args.in) + size(args.in_grad) +
                             size(args.weight) + 2 * size(args.weight_grad))};
}

Cost cost_of(const model::Rope<>& args) {
  const model::HeadShape& shape = args.shape;
  const auto rows = static_cast<double>(args.qkv.rows());
  const auto turned = static_cast<double>((shape.heads + shape.kv_heads) * shape.head_width);
  return per_value(rows * turned, 2, 3);
}

Cost cost_of(const model::Attention<>& args) {
  const double width = static_cast<double>(args.shape.head_width);
  return {.operations = (4 * width + 1) * causal_pairs(args.shape, args.first),
          .bytes = kBytes * (size(args.qkv) + size(args.out))};
}

Cost cost_of(const model::AttentionBackward<>& args) {
  const double width = static_cast<double>(args.shape.head_width);
  return {.operations = (10 * width + 1) * causal_pairs(args.shape, 0),
          .bytes = kBytes * (2 * size(args.qkv) + size(args.out_grad))};
}

Cost cost_of(const model::SwiGlu<>& args) { return per_value(size(args.out), 3, 5); }

Cost cost_of(const model::SwiGluBackward<>& args) { return per_value(size(args.out_grad), 5, 10); }

Cost cost_of(const model::ResidualAdd<>& args) { return per_value(size(args.out), 3, 1); }

Cost cost_of(const model::CrossEntropy<>& args) { return per_value(size(args.logits), 2, 4); }

double training_operations_per_token(const model::LlamaConfig& config, std::int64_t tokens) {
  const std::int64_t layer = config.width * (config.qkv_width() + config.width + 3 * config.ffn);
  const std::int64_t weights = config.layers * layer + config.vocabulary * config.width;
  return 6.0 * static_cast<double>(weights + config.layers * tokens * config.width);
}

}  // namespace starling::peer
