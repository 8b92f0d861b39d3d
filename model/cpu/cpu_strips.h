// What becomes of the sums of a product (packed_gemm.h) while they are in the nearest cache: the
// operation of LayerOps that follows, rounding, and the store. One thread; by hand where the
// processor has a kernel (avx512_loops.h), else plain loops. Inside the room only.
//
// Where an operation is more than an addition, its activations are bf16, the sums of a strip must
// come in one piece, and a strip must hold whole heads (LinearRope), or be paired (LinearSwiGlu).
#pragma once

#include <cstdint>

#include "model/cpu/packed_gemm.h"
#include "model/layer_ops.h"

namespace starling::model {

// Set, or added to what is there.
void store_strip(const Strip& strip, bool adds, const TypedTensor& out);

void store_strip(const Strip& strip, const LinearResidual<>& args);
void store_strip(const Strip& strip, const LinearRope<>& args);
void store_strip(const Strip& strip, const LinearSwiGlu<>& args);
// The sums are gradients of what was gated.
void store_strip(const Strip& strip, const SwiGluLinearBackward<>& args);

}  // namespace starling::model
