// What is said of a machine's driver and GPUs, and of calls that fail: judged from plain facts, so
// that it can be tested where there is neither. Knows no CUDA header; the module asks, this
// answers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/device.h"
#include "base/result.h"
#include "cuda/backend.h"

namespace starling::cuda {

// What the driver answered when it was asked for its GPUs.
struct DriverAnswer {
  int driver = 0;         // the newest CUDA that it knows; 0: there is no driver
  int needed = 0;         // the CUDA that the module was built with
  int gpus = 0;           // 0 where `problem` is said
  std::string problem{};  // as CUDA words it
};
Status judge_driver(const DriverAnswer& answer, int ordinal);

// Too old to run any code in the module, or its driver too old to translate PTX for it? needed: the
// CUDA that the module was built with.
Status judge_gpu(const GpuFacts& facts, int ordinal, int needed);

// "NVIDIA H200, sm_90, 139.7 GiB"
std::string gpu_title(const GpuFacts& facts);
std::string cuda_version(int version);  // 13020 is "13.2"

// Bytes that stay free of a GPU with so many: for the code of kernels, which is loaded when they
// first run, their local memory, and what cuBLASLt takes.
constexpr std::size_t reserve_of(std::size_t memory) {
  return std::min(memory / 16, std::size_t{512} << 20);
}
// Assumed of a GPU that cannot be asked: what a process takes of it before the first allocation.
inline constexpr std::size_t kContextBytes = std::size_t{512} << 20;
// The memory of the smallest GPU that has so much beside both.
constexpr std::size_t memory_for(std::size_t bytes) {
  const std::size_t without_context =
      std::min((bytes + 14) / 15 * 16, bytes + (std::size_t{512} << 20));
  return without_context + kContextBytes;
}
// kExhausted: a GPU on which CUDA cannot even begin.
Error no_context(int ordinal);
// kExhausted. `facts` are of now.
Error no_memory(MemoryKind kind, std::size_t bytes, const GpuFacts& facts);

std::string_view lane_name(Lane lane);

struct FailedCall {
  std::string_view operation;  // of ours: "copy_out"
  std::string_view call;       // of CUDA, as it stands in the source
  std::string_view problem;    // as CUDA words it
};
// Two lines for standard error: a running device that failed cannot go on.
std::string failure_text(const FailedCall& failed, Lane lane, int ordinal);

}  // namespace starling::cuda
