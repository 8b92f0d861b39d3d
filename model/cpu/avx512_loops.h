// The loops of training in bf16 that are written by hand for AVX-512 BF16: what cpu_strips.h,
// attention_rows.h and cpu_rows.h say of functions of the same names, which call these where the
// processor has the instructions, as each does that has a kernel for products (gemm_kernel.h). They
// round by one instruction for ten of a compiler's, which takes numbers below the smallest normal
// one for zero, and strips fetch the memory of the next tile's rows while these are stored. Inside
// the room only.
#pragma once

#include "model/cpu/attention_rows.h"
#include "model/cpu/cpu_rows.h"
#include "model/cpu/cpu_strips.h"
#include "model/cpu/gemm_kernels.h"

namespace starling::model::avx512 {

// Asked in gemm_kernel.cpp. Not in tests of the loops for other processors, compiled as those are,
// nor under sanitizers, which do not see what instructions with a mask read and write.
#if defined(STARLING_X86) && !defined(STARLING_ONE_CLONE) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define STARLING_AVX512_LOOPS
extern const bool kHasLoops;
#else
inline constexpr bool kHasLoops = false;
#endif

void store_strip(const Strip& strip, bool adds, const TypedTensor& out);
void store_strip(const Strip& strip, const LinearResidual<>& args);
void store_strip(const Strip& strip, const LinearRope<>& args);
void store_strip(const Strip& strip, const LinearSwiGlu<>& args);
void store_strip(const Strip& strip, const SwiGluLinearBackward<>& args);

void softmax_rows(const WeightRows& rows, float* inverses, float* log_sums);
void softmax_backward_tile(const ScoreTile& tile, const float* log_sums, const float* means);
void store_rows(const SumRows& rows, bf16* out, std::int64_t out_row);
void store_scaled_rows(const SumRows& rows, const float* scales, bf16* out, std::int64_t out_row);
void turn_back_rows(const SumRows& rows, const Rotations<>& rotations, std::int64_t first,
                    bf16* out, std::int64_t out_row);
void row_dots(const RowPairs& rows, float* dots);

// Of activations in bf16.
void rms_norm_rows(const RmsNorm<>& args, RowRange rows);
void rms_norm_backward_rows(const RmsNormBackward<>& args, RowRange rows, float* gain_grad);

}  // namespace starling::model::avx512
