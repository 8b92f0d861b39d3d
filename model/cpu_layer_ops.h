// The CPU execution of LayerOps: matrix products by oneDNN, everything else by vectorized loops
// over OpenMP's threads. Host memory only; every call completes before it returns, so the lane does
// not matter. Results are bit-identical from run to run for the same number of threads.
//
// Thread: any one thread at a time. Each calling thread has an OpenMP team of its own, so a trainer
// should be one thread for good. reserve() allocates 512 bytes per thread and token of a sequence.
#pragma once

#include <memory>

#include "model/layer_ops.h"

namespace starling::model {

// `threads` > 0.
std::unique_ptr<LayerOps> make_cpu_layer_ops(int threads);

}  // namespace starling::model
