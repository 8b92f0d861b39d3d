// StreamingDiloco: DiLoCo fragment by fragment, without standing still. Each fragment has its round
// at its own time; the peer trains on for tau steps while the mean displacement is on its way, then
// makes the outer step and mixes: fast = a * fast + (1 - a) * slow. Only then it waits, if at all.
//
// Douillard et al., "Streaming DiLoCo with overlapping communication: towards a distributed free
// lunch", 2025 (arXiv 2501.18512), algorithm 2 and section 2.3. The authors took H = 100, fragments
// of three layers, strided; tau = 1 (up to 5 is harmless), a = 0.5, a rate of 0.4, and DiLoCo's
// Nesterov with momentum 0.9. What they send in four bits is float32 here.
#pragma once

#include "optim/outer_exchange.h"
#include "optim/outer_math.h"

namespace starling::optim {

class StreamingDiloco final : public OuterExchange {
 public:
  explicit StreamingDiloco(const OuterConfig& config) : config_(config) {}

  std::string_view name() const override { return "streaming_diloco"; }
  ExchangePlan plan(std::size_t peers) const override;
  void offer(ExchangeState& state, Parcel& parcel) const override;
  void take(ExchangeState& state, const Parcel& own, const Parcel& combined) const override;

 private:
  const OuterConfig config_;
};

}  // namespace starling::optim
