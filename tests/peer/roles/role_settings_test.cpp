#include "peer/roles/role_settings.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gossip/net/identity.h"
#include "tests/peer/file_steps.h"

namespace starling::peer {

namespace {

std::string write_shard(const ScratchFolder& folder, const std::string& name,
                        std::string tokenizer) {
  const auto path = folder / name;
  auto writer = ShardWriter::create(
      path, {.token_bytes = 2, .vocabulary = 256, .tokenizer = std::move(tokenizer)});
  REQUIRE(writer.ok());
  REQUIRE(writer.value().append(std::vector<std::int32_t>(5000, 7)).ok());
  REQUIRE(writer.value().finish().ok());
  return path.string();
}

}  // namespace

TEST_CASE("a peer is measured on data of the tokenizer that it trains with, or not at all") {
  const ScratchFolder folder;
  PeerConfig config;
  config.data.train = {write_shard(folder, "train.tok", "bpe-0123456789abcdef")};
  config.data.validation = {write_shard(folder, "other.tok", "bytes")};
  auto mixed = open_data(config);
  REQUIRE_FALSE(mixed.ok());
  CHECK(
      mixed.error().message().find(
          "data.train was made by tokenizer 'bpe-0123456789abcdef', data.validation by 'bytes'") ==
      0);
  config.data.validation = {write_shard(folder, "own.tok", "bpe-0123456789abcdef")};
  CHECK(open_data(config).ok());
}

TEST_CASE("peers whose tokenizers differ train other models") {
  const RunConfig run{.start = "start.ckpt"};
  const CheckpointDigests digests{.run = 1, .model = 2, .layout = 3};
  const gossip::RunIdentity bytes = run_identity(run, digests, "bytes");
  CHECK(bytes == gossip::RunIdentity{.run = 1, .model = 2, .layout = 3});
  CHECK(run_identity(run, digests, "") == bytes);
  const gossip::RunIdentity pieces = run_identity(run, digests, "spm-0123456789abcdef");
  CHECK(pieces.run == bytes.run);
  CHECK(pieces.model != bytes.model);
  CHECK(pieces.layout == bytes.layout);
  CHECK(pieces.model != run_identity(run, digests, "spm-0123456789abcdee").model);
  CHECK(pieces.model !=
        run_identity(run, {.run = 1, .model = 4, .layout = 3}, "spm-0123456789abcdef").model);
}

TEST_CASE("peers whose first weights are drawn from other seeds are of other runs") {
  const CheckpointDigests digests{.run = 1, .model = 2, .layout = 3};
  const auto run = [&digests](const RunConfig& config) {
    return run_identity(config, digests, "bytes").run;
  };
  CHECK(run({.seed = 1, .start = ""}) == run({.seed = 1, .start = ""}));
  CHECK(run({.seed = 1, .start = ""}) != run({.seed = 2, .start = ""}));
  // What they begin with is the same, and in the digest already.
  CHECK(run({.seed = 1, .start = "x"}) == run({.seed = 2, .start = "y"}));
}

TEST_CASE("a list of seeds may name this peer too, which is passed over") {
  const auto own = gossip::Identity::draw(), other = gossip::Identity::draw();
  PeerConfig config;
  config.gossip.seeds = {gossip::to_string(own.key()) + "@192.0.2.1:7700",
                         gossip::to_string(other.key()) + "@192.0.2.2:7700"};
  auto network = network_config(config);
  REQUIRE(network.ok());
  leave_out_own_seed(network.value(), own.key());
  REQUIRE(network.value().seeds.size() == 1);
  CHECK(network.value().seeds.front().key == other.key());
}

TEST_CASE("a learning rate that falls for this peer alone is noticed where others train too") {
  const auto early = [](std::vector<std::string> settings) {
    settings.push_back("data.train=x");
    auto config = parse_config("", "test", settings);
    REQUIRE_MESSAGE(config.ok(), config.error().message());
    return network_config(config.value()).value().early_floor;
  };
  CHECK(early({"schedule.shape=cosine"}));
  CHECK_FALSE(early({"schedule.shape=constant"}));
  CHECK_FALSE(early({"schedule.shape=cosine", "run.total_tokens=2000000"}));
  CHECK_FALSE(early({"schedule.shape=cosine", "schedule.total_tokens=2000000"}));
}

TEST_CASE("the rate at which a run should not end lies half-way, where it falls at all") {
  PeerConfig config;
  config.schedule.peak = 3e-3;
  config.schedule.floor_ratio = 0.1;
  config.schedule.total_tokens = 1e6;
  config.schedule.shape = optim::LrShape::kCosine;
  auto network = network_config(config);
  REQUIRE(network.ok());
  CHECK(network.value().end_rate_max == doctest::Approx(1.65e-3));
  CHECK(network.value().schedule_tokens == 1e6);
  config.schedule.shape = optim::LrShape::kConstant;
  CHECK(std::isinf(network_config(config).value().end_rate_max));
}

TEST_CASE("the codes of the protocol core are the codec's, from most to fewest bits") {
  std::vector<optim::WireFormat> codes;
  for (const gossip::Code& code : gossip::GossipConfig{}.codes) {
    codes.push_back(static_cast<optim::WireFormat>(code.format));
  }
  std::vector<optim::WireFormat> modular;
  std::copy_if(optim::kWireFormats.begin(), optim::kWireFormats.end(), std::back_inserter(modular),
               optim::is_modular);
  CHECK(codes == modular);
  CHECK(std::is_sorted(codes.begin(), codes.end(), [](auto more, auto fewer) {
    return optim::code_bits(more) > optim::code_bits(fewer);
  }));
}

TEST_CASE("a thin line is given the fewest bits, and its code back by the ratio of both") {
  const auto fewer_bits = [](optim::WireFormat format) {
    PeerConfig config;
    config.outer.wire_format = format;
    return network_config(config).value().fewer_bits;
  };
  for (const auto& [format, ratio] :
       {std::pair{optim::WireFormat::kMod8, 2.0}, std::pair{optim::WireFormat::kMod6, 1.5},
        std::pair{optim::WireFormat::kMod5, 1.25}}) {
    CAPTURE(optim::to_string(format));
    const auto fewer = fewer_bits(format);
    REQUIRE(fewer);
    CHECK(fewer->code == static_cast<std::uint8_t>(optim::WireFormat::kMod4));
    CHECK(fewer->configured == static_cast<std::uint8_t>(format));
    CHECK(fewer->ratio == ratio);
  }
  for (const auto format :
       {optim::WireFormat::kF32, optim::WireFormat::kBf16, optim::WireFormat::kMod4}) {
    CHECK(!fewer_bits(format));
  }
}

}  // namespace starling::peer
