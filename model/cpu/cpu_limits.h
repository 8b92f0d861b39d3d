// What one core can do at most: loops that only compute, and loops that only copy. A measurement of
// real work is judged by them (starling bench).
//
// Each loop is compiled for the instructions it is made of and listed only where the processor has
// them. Thread: any; they share nothing. No clock: whoever calls takes the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace starling::model {

struct ComputeLoop {
  std::string_view name;                 // "fma, 512 bits"
  double operations = 0;                 // of one round; a multiply-add counts as two
  float (*run)(std::int64_t) = nullptr;  // so many rounds; the result depends on all of them
};

// Of float32; at least one.
std::vector<ComputeLoop> fp32_loops();
// Products of bfloat16 summed in float32; none where the processor has neither
// vdpbf16ps nor AMX.
std::vector<ComputeLoop> bf16_loops();

// target = source, through the caches, and past them where the processor can. No overlap.
void copy_through_caches(float* target, const float* source, std::size_t count);
void copy_past_caches(float* target, const float* source, std::size_t count);

}  // namespace starling::model
