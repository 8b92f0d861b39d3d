// The CPU's FlatOps: loops over host memory, on a team of threads, which must outlive it. Every
// result is the same for any number of threads. Lanes are program order. Thread: the one that may
// call team.run().
#pragma once

#include <memory>

#include "base/thread_team.h"
#include "optim/flat_ops.h"

namespace starling::optim {

std::unique_ptr<FlatOps> make_cpu_flat_ops(ThreadTeam& team);

}  // namespace starling::optim
