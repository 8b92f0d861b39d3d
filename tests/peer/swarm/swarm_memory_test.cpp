#include "peer/swarm/swarm_memory.h"

#include <doctest/doctest.h>

#include "peer/roles/memory_plan.h"

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

TEST_CASE("peers that share a GPU are told to leave each other room") {
  CHECK(describe_gpus(0, 8, true).empty());
  CHECK(describe_gpus(8, 8, true) == "on 8 GPUs\n");
  CHECK(describe_gpus(1, 1, true) == "on 1 GPU\n");
  CHECK(describe_gpus(2, 3, true).find("3 peers: set batch.micro") != std::string::npos);
  CHECK(describe_gpus(2, 3, false) == "on 2 GPUs, shared by 3 peers\n");
}

TEST_CASE("peers on GPUs have to fit beside each other with what lies on the host") {
  const PeerConfig config = large_batches();
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments).value();
  const std::size_t on_host =
      plan_memory(config, layout, StripeTable(layout), needs_of_gpu(model::Compute::kBf16))
          .host_total();
  const auto of_each = [&](std::uint64_t available) {
    return micro_batch_of_each(config, {.available = available, .peers = 8, .gpus = true});
  };
  CHECK(of_each(8 * on_host).value() == config.batch.sequences);
  auto none = of_each(8 * on_host - 8);
  REQUIRE(!none.ok());
  CHECK(none.error().code() == ErrorCode::kExhausted);
  CHECK(none.error().message().find("8 peers") != std::string::npos);
  CHECK(none.error().message().find("gossip.slots") != std::string::npos);
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
