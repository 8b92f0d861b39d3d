#include "peer/roles/pools.h"

#include <doctest/doctest.h>

#include "base/cpu_device.h"
#include "gossip/wire/wire.h"
#include "optim/fragment_codec.h"

namespace starling::peer {

TEST_CASE("a payload's slot holds a stripe in every format, and keeps slots aligned") {
  for (const std::size_t parameters : {1, 63, 64, 1000, 1 << 18}) {
    const std::size_t bytes = payload_slot_bytes(parameters);
    CHECK(bytes % 64 == 0);
    CHECK(bytes >= gossip::kBulkHeadBytes + parameters * sizeof(float));
    CHECK(bytes >=
          gossip::kBulkHeadBytes + optim::delta_bytes(optim::WireFormat::kMod8, parameters));
    CHECK(bytes <= gossip::kBulkFrameBytesMax + 64);
  }
}

TEST_CASE("there are slots for every stripe of a round, unless they are told") {
  LocalSteps local_steps = LocalSteps::kFixed;
  const auto slots = [&](std::int32_t layers, std::uint32_t steps_per_round, std::uint32_t told) {
    PeerConfig config;
    config.outer.local_steps = local_steps;
    config.gossip.slots = told;
    config.outer.rounds.steps_per_round = steps_per_round;
    const model::LlamaConfig model{.vocabulary = 32'000,
                                   .width = 1024,
                                   .layers = layers,
                                   .heads = 8,
                                   .kv_heads = 8,
                                   .ffn = 2816,
                                   .context = 64};
    return slot_count(config, StripeTable(model::ParamLayout::plan(model, 2).value()));
  };
  CHECK(slots(1, 100, 0) == 32);
  CHECK(slots(24, 100, 0) > 32);  // 13 stripes a step
  CHECK(slots(24, 100, 0) < 48);
  CHECK(slots(24, 25, 0) > 4 * 32);
  CHECK(slots(24, 1, 0) == 288);
  CHECK(slots(24, 25, 34) == 34);
  const std::uint32_t of_quarter = slots(24, 25, 0);
  local_steps = LocalSteps::kDynamic;
  CHECK(slots(24, 100, 0) == of_quarter);
  CHECK(slots(1, 100, 0) == 32);
}

}  // namespace starling::peer
