// starling bench codec: what a round costs the mixer: the outer step; and format by format encoding
// a push, making the answer to one, decoding that, and applying it, stripe after stripe of two
// peers' slow weights, as the mixer does it, on its one thread. Blocking; for the command line.
#pragma once

#include "base/result.h"
#include "peer/bench/bench_rates.h"

namespace starling::peer {

// Its rates are called "outer step", "mod8 encode" and so on. `threads` is not used.
Result<RateBench> bench_codec(const RateBenchOptions& options);

}  // namespace starling::peer
