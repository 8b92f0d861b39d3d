// starling bench optimizer: AdamW and the norm of the gradients, as the trainer's backend computes
// them. Blocking; for the command line.
#pragma once

#include "base/result.h"
#include "peer/bench/bench_rates.h"

namespace starling::peer {

Result<RateBench> bench_optimizer(const RateBenchOptions& options);

}  // namespace starling::peer
