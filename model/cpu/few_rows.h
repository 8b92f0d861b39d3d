// Products with a few rows, as in generation, where packing a matrix would cost more than
// multiplying it once: the matrix is read as it lies, as floats, and left operands in bf16 become
// floats again. What becomes of the sums is said as for PackedGemm (packed_gemm.h). Inside the room
// only.
#pragma once

#include "base/thread_team.h"
#include "model/cpu/packed_gemm.h"

namespace starling::model {

inline constexpr std::int64_t kFewRows = 8;

// Rows of bf16, at most kFewRows, by columns of floats, none transposed.
bool is_few_rows(const Product& product);
// Such a product, in strips of at most 512 columns. Thread: the one that may call team.run().
void multiply_few_rows(ThreadTeam& team, const Product& product, const StripStore& store);

}  // namespace starling::model
