// What an operator costs at the least: its floating-point operations, and the bytes that go to and
// from memory if every operand is read or written once. A multiply-add counts as two operations, an
// exponential as one. Caches can make it cheaper than its bytes, so this is a floor for operands
// that are larger than they.
//
// Pure functions of the shapes; no operand is read.
#pragma once

#include <cstdint>

#include "model/layer_ops.h"
#include "model/llama_config.h"

namespace starling::peer {

struct Cost {
  double operations = 0, bytes = 0;

  Cost& operator+=(const Cost& other) {
    operations += other.operations;
    bytes += other.bytes;
    return *this;
  }
};

// Reads and writes of whole arrays of float32, and operations for each of their values.
Cost per_value(double values, double arrays, double operations);

Cost cost_of(const model::Embed<>& args);
Cost cost_of(const model::EmbedBackward<>& args);
Cost cost_of(const model::RmsNorm<>& args);
Cost cost_of(const model::RmsNormBackward<>& args);
Cost cost_of(const model::Linear<>& args);
Cost cost_of(const model::LinearBackward<>& args);
Cost cost_of(const model::LinearResidual<>& args);
Cost cost_of(const model::LinearResidualNorm<>& args);
Cost cost_of(const model::LinearRope<>& args);
// Of the causal half only.
Cost cost_of(const model::Attention<>& args);
// With the weights computed again, and the rotation undone, as its contract has it.
Cost cost_of(const model::AttentionBackward<>& args);
Cost cost_of(const model::LinearSwiGlu<>& args);
Cost cost_of(const model::SwiGluLinearBackward<>& args);
Cost cost_of(const model::CrossEntropy<>& args);

// Operations of training on one token as usually counted: 6 for every weight of a matrix it is
// multiplied by, and 6 * layers * tokens * width for attention; nothing twice, though the backward
// of attention computes its weights again.
double training_operations_per_token(const model::LlamaConfig& config, std::int64_t tokens);

}  // namespace starling::peer
