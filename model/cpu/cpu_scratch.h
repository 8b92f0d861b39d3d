// CpuScratch: how the memory that the CPU's operations of LayerOps take for themselves is cut: what
// all threads share, then attention of each, then parts of a gain's gradient, then sums that are
// too deep to come in one piece. A pure plan; offsets in bytes, of whole pages. Inside the room
// only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "model/cpu/gemm_kernel.h"
#include "model/layer_ops.h"

namespace starling::model {

// Of the rows whose gradients add to a gain's, each with a sum of its own: at most so many parts.
inline constexpr std::int64_t kGainPartsMax = 64;
// Of a product in bf16 whose sums come in parts (kPackedDepth), so many sums are floats at a time.
inline constexpr std::int64_t kDeepSums = std::int64_t{1} << 20;

class CpuScratch {
 public:
  // `kernel`: null for products of floats.
  CpuScratch(const GemmKernel* kernel, int threads, const StepShape& largest);

  std::size_t of_worker() const { return of_worker_; }
  std::size_t worker_at(int worker) const {
    return shared_ + static_cast<std::size_t>(worker) * of_worker_;
  }
  std::size_t gain_parts_at() const { return worker_at(workers_); }
  std::size_t deep_sums_at() const { return gain_parts_at() + gain_parts_; }
  std::size_t bytes() const { return deep_sums_at() + deep_sums_; }

  // kExhausted, with the settings that make it less.
  Error no_room(const StepShape& largest) const;

 private:
  const int workers_;
  std::size_t shared_ = 0, of_worker_ = 0, gain_parts_ = 0, deep_sums_ = 0;
};

}  // namespace starling::model
