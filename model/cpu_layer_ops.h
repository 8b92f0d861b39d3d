// The CPU execution of LayerOps: matrix products by oneDNN, everything else by vectorized loops
// on a team of threads, which must outlive it. Host memory only; every call completes before it
// returns, so the lane does not matter. Results are bit-identical from run to run for the same
// number of threads.
//
// Thread: the one that may call team.run(). reserve() allocates 512 bytes per thread and token of a
// sequence.
#pragma once

#include <memory>

#include "base/thread_team.h"
#include "model/layer_ops.h"

namespace starling::model {

std::unique_ptr<LayerOps> make_cpu_layer_ops(ThreadTeam& team);

}  // namespace starling::model
