// The kernels of single instruction sets, for gemm_kernel.cpp, which chooses among them. Each may
// only be executed where the processor has its instructions.
#pragma once

#include "model/cpu/gemm_kernel.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define STARLING_X86 1
#endif

namespace starling::model {

#if defined(STARLING_X86)
extern const GemmKernel kAvx512Bf16;  // AVX-512 BF16
extern const GemmKernel kAmxBf16;     // AMX, and AVX-512 BF16 for what surrounds it

// Asks the system for the use of AMX's tiles by all threads of this process.
bool request_amx();
#endif

}  // namespace starling::model
