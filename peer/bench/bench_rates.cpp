#include "peer/bench/bench_rates.h"

namespace starling::peer {

Status validate(const RateBenchOptions& options) {
  constexpr std::uint64_t kParametersMax = std::uint64_t{1} << 34;
  if (options.parameters == 0 || options.parameters > kParametersMax) {
    return Error(ErrorCode::kInvalidConfig, "--parameters must be between 1 and 2^34");
  }
  return ok_status();
}

}  // namespace starling::peer
