// The CPU execution of LayerOps: matrix products by oneDNN, or in bf16 by kernels of our own,
// everything else by vectorized loops, on a team of threads, which must outlive it. Host memory
// only; every call completes before it returns, so the lane does not matter. Results are
// bit-identical from run to run for the same number of threads.
//
// Thread: the one that may call team.run(). reserve() allocates for each thread and token of a
// sequence 512 bytes, 256 bytes a column of the residual stream and, of several threads, 2 MiB for
// each; for kBf16 for each thread what packed_attention.h says, and what packed_gemm.h does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/thread_team.h"
#include "model/layer_ops.h"

namespace starling::model {

// What matrix products multiply, those of attention among them. kBf16: their operands are rounded
// (but for the weights in products of few rows, few_rows.h), and so is what lies between two of
// them, where it is stored; sums, weights and the residual stream are floats in both.
enum class Compute : std::uint8_t { kFp32, kBf16 };

// Whether this machine has arithmetic for kBf16, without which it must not be asked for, and
// whether it gains by it: with AMX, and with the AVX-512 BF16 of AMD, not with that of Intel.
bool has_bf16();
bool bf16_is_faster();

constexpr DType activations_of(Compute compute) {
  return compute == Compute::kBf16 ? DType::kBf16 : DType::kF32;
}

// Their scratch_bytes() on a team of so many threads; for kBf16 where this machine has no
// arithmetic for it, those of a machine with AMX.
std::size_t cpu_scratch_bytes(Compute compute, int threads, const StepShape& largest);

std::unique_ptr<LayerOps> make_cpu_layer_ops(ThreadTeam& team, Compute compute = Compute::kFp32);
// kBf16 by this one of gemm_kernels(), not the best.
struct GemmKernel;
std::unique_ptr<LayerOps> make_cpu_layer_ops(ThreadTeam& team, const GemmKernel& kernel);

}  // namespace starling::model
