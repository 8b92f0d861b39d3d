// How fast this machine is at most, measured. Of processors: arithmetic in registers and copies in
// memory, on as many threads as the work that is judged by it. Of a GPU: a product of large square
// matrices, grown until one takes a millisecond, and copies in its memory. The best of several
// turns each: a limit is what can be, not what usually is.
//
// Blocks, starts threads of its own and asks for memory, twice `copy_bytes`. For tools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "peer/bench/operator_cost.h"

namespace starling::peer {

struct Backend;

struct MachineProbe {
  int threads = 1;             // of processors
  double seconds = 0.3;        // of each of the figures
  std::size_t copy_bytes = 0;  // of each of two arrays; 0: well beyond the caches
};

struct MachineSpeed {
  int threads = 0;                   // 0: a GPU's
  double fp32 = 0, bf16 = 0;         // operations a second; 0: cannot be done, or not measured
  std::string fp32_loop, bf16_loop;  // what reached them
  double copy = 0, copy_past = 0;    // bytes a second, read and written; past the caches
  std::size_t copy_bytes = 0;        // of each array, as measured

  double bandwidth() const;  // of the faster way to copy
  // Products of this type: "fp32", or "bf16", which may also be computed as fp32.
  double peak(std::string_view compute) const;
};

MachineSpeed measure_machine(const MachineProbe& probe);
// Of a GPU, for the type of products that `backend` is for; nobody else may use its operations.
// Error: no memory for it.
Result<MachineSpeed> measure_gpu(Backend& backend, const MachineProbe& probe);

// What the cost takes at least on such a machine: by its operations or by its bytes.
double floor_seconds(const Cost& cost, const MachineSpeed& machine, std::string_view compute);

}  // namespace starling::peer
