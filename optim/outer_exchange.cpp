#include "optim/outer_exchange.h"

#include <bit>
#include <utility>

#include "base/assert.h"
#include "optim/outer_ad_psgd.h"
#include "optim/outer_all_reduce.h"
#include "optim/outer_async_local_sgd.h"
#include "optim/outer_diloco.h"
#include "optim/outer_epidemic.h"
#include "optim/outer_noloco.h"
#include "optim/outer_push_sum.h"
#include "optim/outer_streaming_diloco.h"
#include "optim/outer_swarm_sgd.h"
#include "optim/vector_math.h"

namespace starling::optim {

void OuterExchange::combine(std::span<const Parcel* const> parcels, Parcel& combined) const {
  STARLING_ASSERT(!parcels.empty());
  const std::vector<float>& first = parcels.front()->values;
  combined.values = first;
  combined.weight = 0.0;
  for (const Parcel* parcel : parcels) combined.weight += parcel->weight;
  // From the first on: equal parcels have exactly themselves as their mean.
  for (const Parcel* parcel : parcels.subspan(1)) {
    const auto share = static_cast<float>(parcel->weight / combined.weight);
    add_scaled_difference(combined.values, share, parcel->values, first);
  }
}

Result<std::unique_ptr<OuterExchange>> make_outer_exchange(const OuterConfig& config) {
  auto valid = validate(config);
  if (!valid.ok()) return std::move(valid).error();
  std::unique_ptr<OuterExchange> exchange;
  switch (config.method) {
    case OuterMethod::kAllReduce: exchange = std::make_unique<AllReduce>(); break;
    case OuterMethod::kDiloco: exchange = std::make_unique<Diloco>(config); break;
    case OuterMethod::kNoloco: exchange = std::make_unique<Noloco>(config); break;
    case OuterMethod::kStreamingDiloco: exchange = std::make_unique<StreamingDiloco>(config); break;
    case OuterMethod::kAsyncLocalSgd: exchange = std::make_unique<AsyncLocalSgd>(); break;
    case OuterMethod::kAdPsgd: exchange = std::make_unique<AdPsgd>(); break;
    case OuterMethod::kSwarmSgd: exchange = std::make_unique<SwarmSgd>(); break;
    case OuterMethod::kPushSum: exchange = std::make_unique<PushSum>(config); break;
    case OuterMethod::kEpidemic: exchange = std::make_unique<Epidemic>(config); break;
    case OuterMethod::kPairGossip:
    case OuterMethod::kLocal:
      return Error(ErrorCode::kInvalidConfig,
                   "this outer method hands no whole vectors around: it is a rule of one peer");
  }
  return exchange;
}

std::size_t rotation_target(std::size_t rank, std::size_t peers, std::uint64_t round) {
  STARLING_ASSERT(peers >= 2);
  STARLING_ASSERT(rank < peers);
  const auto distances = static_cast<std::uint64_t>(std::bit_width(peers - 1));
  return (rank + (std::size_t{1} << (round % distances))) % peers;
}

}  // namespace starling::optim
