// Matrix products at sizes of real models, for a GPU and, smaller, for the emulator. `ops` reads
// memory of the host.
#pragma once

#include <cstdint>

#include "model/layer_ops.h"

namespace starling::cuda {

// out (rows, outputs) = in (rows, inputs) * weight (outputs, inputs)^T, and its backward. The
// depths of the three products are the inputs, the outputs and the rows.
struct LinearSizes {
  std::int64_t rows = 1, outputs = 1, inputs = 1;
};

// Of ones: each element of each product must be the number of its summands, exactly.
void check_products_of_ones(model::LayerOps& ops, const LinearSizes& sizes);

// Of random numbers, with the types that a model's head and its gates have: samples of each product
// must be sums in double, but for roundings.
void check_head(model::LayerOps& ops, const LinearSizes& sizes);
void check_gate_up(model::LayerOps& ops, const LinearSizes& sizes);

}  // namespace starling::cuda
