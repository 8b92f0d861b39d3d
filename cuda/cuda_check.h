// STARLING_CUDA: a call of CUDA that cannot fail but for a bug or a broken device, and then ends
// the process: operation, lane and call are named on standard error. Errors of kernels show at the
// calls that follow them. Only for a device that runs; start-up reports Result.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "base/device.h"
#include "cuda/device_choice.h"

namespace starling::cuda {

// Says so on standard error, and ends the process at once.
[[noreturn]] void end_process(const FailedCall& failed, Lane lane) noexcept;
[[noreturn]] void call_failed(cudaError_t error, const char* operation, Lane lane,
                              const char* call) noexcept;

inline void check_call(cudaError_t error, const char* operation, Lane lane, const char* call) {
  if (error != cudaSuccess) call_failed(error, operation, lane, call);
}

// "out of memory (cudaErrorMemoryAllocation)"
std::string problem_of(cudaError_t error);

}  // namespace starling::cuda

#define STARLING_CUDA(operation, lane, call) \
  ::starling::cuda::check_call((call), operation, lane, #call)
