#include "model/cpu/cpu_scratch.h"

#include <fmt/format.h>

#include "model/cpu/cpu_attention.h"
#include "model/cpu/cpu_gemm.h"
#include "model/cpu/packed_attention.h"
#include "model/cpu/packed_gemm.h"

namespace starling::model {

namespace {

std::size_t in_pages(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  return (bytes + kPage - 1) / kPage * kPage;
}
std::size_t bytes_of_floats(std::int64_t count) {
  return sizeof(float) * static_cast<std::size_t>(count);
}

}  // namespace

CpuScratch::CpuScratch(const GemmKernel* kernel, int threads, const StepShape& largest)
    : workers_(threads), gain_parts_(in_pages(bytes_of_floats(kGainPartsMax * largest.width))) {
  if (kernel != nullptr) {
    shared_ = in_pages(PackedGemm::memory_bytes(threads));
    of_worker_ = in_pages(PackedAttention::memory_bytes(*kernel, largest.longest));
    deep_sums_ = in_pages(bytes_of_floats(kDeepSums));
  } else {
    shared_ = in_pages(sizeof(float) * depth_sums(threads));
    of_worker_ = in_pages(bytes_of_floats(attention_scratch(largest.longest.tokens)));
  }
}

Error CpuScratch::no_room(const StepShape& largest) const {
  return Error(
      ErrorCode::kExhausted,
      fmt::format("no memory for {} MiB of scratch of {} threads, for sequences of up to {} "
                  "tokens; lower device.threads, batch.tokens or model.context",
                  bytes() >> 20, workers_, largest.longest.tokens));
}

}  // namespace starling::model
