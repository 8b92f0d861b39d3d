// The CPU's FlatOps: loops over host memory, on `threads` OpenMP threads (at least 1). Every
// result is the same for any number of threads. Lanes are program order.
#pragma once

#include <memory>

#include "optim/flat_ops.h"

namespace starling::optim {

std::unique_ptr<FlatOps> make_cpu_flat_ops(int threads);

}  // namespace starling::optim
