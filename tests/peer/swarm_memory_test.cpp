#include "peer/swarm_memory.h"

#include <doctest/doctest.h>

#include "peer/memory_plan.h"

namespace starling::peer {
namespace {

constexpr std::uint64_t kMebi = 1 << 20;

PeerConfig large_batches() {
  PeerConfig config;
  config.batch.sequences = 64;
  config.device.compute = ComputeType::kFp32;
  return config;
}

std::size_t planned(PeerConfig config, std::int64_t micro) {
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
  REQUIRE(layout.ok());
  config.micro_batch = micro;
  return plan_memory(config, layout.value(), StripeTable(layout.value()),
                     needs_of_cpu(model::Compute::kFp32, 1))
      .total();
}

TEST_CASE("peers that start together on a machine plan with a share of its memory each") {
  const PeerConfig config = large_batches();
  const auto of_each = [&](std::uint32_t peers, std::uint64_t available) {
    return micro_batch_of_each(config, {.available = available, .peers = peers, .threads = 1});
  };
  const std::uint64_t plenty = 1'000'000 * kMebi;
  const std::int64_t alone = of_each(1, plenty).value();
  CHECK(of_each(4, plenty).value() == alone);
  // What two have room for beside each other, four have not: each computes less at a time.
  REQUIRE(alone > 1);
  const std::uint64_t for_two = 4 * planned(config, alone);  // four fifths of a share are planned
  CHECK(of_each(2, for_two).value() == alone);
  const std::int64_t less = of_each(4, for_two).value();
  CHECK(less < alone);
  CHECK(4 * planned(config, less) <= for_two);
  auto none = of_each(64, for_two);
  REQUIRE(!none.ok());
  CHECK(none.error().code() == ErrorCode::kExhausted);
  CHECK(none.error().message().find("64 peers") != std::string::npos);
  CHECK(none.error().message().find("fewer --peers") != std::string::npos);
}

TEST_CASE("a batch.micro that is set is what all peers have to have room for") {
  PeerConfig config = large_batches();
  config.micro_batch = 64;
  const std::uint64_t one = planned(config, 64);
  CHECK(micro_batch_of_each(config, {.available = 2 * one, .peers = 2, .threads = 1}).value() ==
        64);
  CHECK(!micro_batch_of_each(config, {.available = 2 * one, .peers = 3, .threads = 1}).ok());
}

}  // namespace
}  // namespace starling::peer
