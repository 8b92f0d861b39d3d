#include "model/cpu/gemm_kernel.h"

#include <vector>

#include "model/cpu/avx512_loops.h"
#include "model/cpu/gemm_kernels.h"

namespace starling::model {

namespace {

#if defined(STARLING_X86)
bool has_avx512_bf16() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bf16");
}
bool has_amx() {
  return has_avx512_bf16() && __builtin_cpu_supports("amx-tile") &&
         __builtin_cpu_supports("amx-bf16") && request_amx();
}
#endif

std::vector<const GemmKernel*> find_kernels() {
  std::vector<const GemmKernel*> kernels;
#if defined(STARLING_X86)
  if (has_avx512_bf16()) kernels.push_back(&kAvx512Bf16);
  if (has_amx()) kernels.push_back(&kAmxBf16);
#endif
  return kernels;
}

}  // namespace

std::span<const GemmKernel* const> gemm_kernels() {
  static const std::vector<const GemmKernel*> kernels = find_kernels();
  return kernels;
}

#if defined(STARLING_AVX512_LOOPS)
const bool avx512::kHasLoops = has_avx512_bf16();
#endif

bool last_kernel_is_faster() {
#if defined(STARLING_X86)
  const auto kernels = gemm_kernels();
  return !kernels.empty() && (kernels.back() == &kAmxBf16 || __builtin_cpu_is("amd"));
#else
  return false;
#endif
}

}  // namespace starling::model
