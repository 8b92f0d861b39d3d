// Matrix products on the CPU, through oneDNN: c = scale * op(a) * op(b) + keep * c, row-major.
//
// gemm() runs on the calling thread alone. parallel_gemm() cuts the product into tiles and hands
// them to a team, each as one gemm(): the library's own threads meet at barriers inside a product
// and spin there, which costs whole time slices as soon as a peer's other threads want a core too.
// Deterministic for a fixed number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/thread_team.h"

namespace starling::model {

struct GemmOperand {
  const float* data = nullptr;
  std::int64_t stride = 0;  // from one stored row to the next
  bool transposed = false;
};

struct Gemm {
  float* out = nullptr;
  std::int64_t out_stride = 0;
  GemmOperand left, right;
  std::int64_t rows = 0, columns = 0, inner = 0;  // of the product
  float scale = 1.0F;
  float keep = 0.0F;  // 0: out is set; 1: added to
};

void gemm(const Gemm& args);
void parallel_gemm(ThreadTeam& team, const Gemm& args);

// Floats that gemm_by_depth() can use.
std::size_t depth_sums(int threads);
// The same, where each worker wrote its share of the inner dimension, as it did of
// the tokens that a weight's gradient is summed over: where the sums are few, each makes its own of
// what is in its cache, in `sums`, and they are added up one after the other.
void gemm_by_depth(ThreadTeam& team, const Gemm& args, std::span<float> sums);

}  // namespace starling::model
