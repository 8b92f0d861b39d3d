#include "peer/roles/role_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/hash.h"
#include "base/log.h"
#include "model/tokenizers/tokenizer.h"
#include "peer/config/addresses.h"
#include "peer/config/config_ranges.h"
#include "peer/io/file_io.h"
#include "peer/roles/pools.h"

namespace starling::peer {

namespace {

constexpr std::size_t kTrafficBytesMax = std::size_t{64} << 20;  // years of lines

}  // namespace

RunFolderNames run_folder_names(const PeerConfig& config) {
  return {.root = config.run.folder, .run = config.run.name, .peer = config.run.peer_name};
}

std::filesystem::path checkpoint_folder(const PeerConfig& config) {
  if (!config.checkpoint.folder.empty()) return config.checkpoint.folder;
  return run_folder_names(config).path() / kCheckpointFolder;
}

std::filesystem::path key_file(const PeerConfig& config) {
  if (!config.trust.key.empty()) return config.trust.key;
  return run_folder_names(config).path() / kKeyFile;
}

Result<RunData> open_data(const PeerConfig& config, ShardCheck check) {
  const DatasetNeeds needs{.vocabulary = config.model.vocabulary, .tokens = config.batch.tokens};
  auto training = Dataset::open(config.data.train, needs, check);
  if (!training.ok()) return std::move(training).error().with_context("data.train");
  RunData data{std::move(training).value(), std::nullopt};
  if (config.data.validation.empty()) return data;
  auto validation = Dataset::open(config.data.validation, needs, check);
  if (!validation.ok()) return std::move(validation).error().with_context("data.validation");
  const std::string &trains = data.training.tokenizer(), &measures = validation.value().tokenizer();
  if (!trains.empty() && !measures.empty() && trains != measures) {
    return Error(ErrorCode::kIncompatible,
                 fmt::format("data.train was made by tokenizer '{}', data.validation by '{}': "
                             "prepare both with the same --tokenizer",
                             trains, measures));
  }
  data.validation.emplace(std::move(validation).value());
  return data;
}

gossip::RunIdentity run_identity(const RunConfig& run, const CheckpointDigests& digests,
                                 std::string_view tokenizer) {
  const bool adds_nothing = tokenizer.empty() || tokenizer == model::ByteTokenizer::kName;
  const bool drawn = run.start.empty();
  return {.run = drawn ? digest(fmt::format("seed {}", run.seed), digests.run) : digests.run,
          .model = adds_nothing ? digests.model : digest(tokenizer, digests.model),
          .layout = digests.layout};
}

TrainerConfig trainer_config(const PeerConfig& config, bool exchanges, const DeviceNeeds& needs) {
  return {.model = trained_model(config),
          .batch = pass_of(config, config.batch.sequences, needs),
          .micro_batch = config.micro_batch.value_or(0),
          .inner = config.inner,
          .schedule = config.schedule,
          .fragments = config.outer.rounds,
          .dynamic_steps = config.outer.local_steps == LocalSteps::kDynamic,
          .tokens_budget = config.run.tokens,
          .init_seed = config.run.seed,
          .exchanges = exchanges,
          .checkpoint_every_steps = config.checkpoint.every_steps,
          .validate_every_steps =
              config.data.validation.empty() ? 0 : config.metrics.validate_every_steps,
          .slow_down_factor = config.test.slow_down_factor};
}

gossip::DriverLimits driver_limits(const PeerConfig& config, const StripeTable& stripes) {
  // An exchange has no more than its window of them under way. Some are left for what this peer
  // sends of its own accord, whoever does not read.
  const std::size_t quarter = slot_count(config, stripes) / 4;
  return {.upload_bytes_per_second = config.bandwidth.upload_mbit * kBytesPerMbit,
          .download_bytes_per_second = config.bandwidth.download_mbit * kBytesPerMbit,
          .deltas_of_peer_max = std::max<std::size_t>(config.gossip.window, quarter),
          .deltas_max = std::max<std::size_t>(config.gossip.window, 3 * quarter),
          .pieces_of_peer_max = kPiecesOfPeer};
}

Result<NetworkConfig> network_config(const PeerConfig& config) {
  NetworkConfig network{
      .peer_name = config.run.peer_name,
      .checkpoint = {},
      .seeds = {},
      .allow_list = config.trust.allow,
      .closing = from_seconds(config.gossip.closing_seconds),
      .tokens_budget = config.run.tokens,
      .early_floor = config.schedule.shape != optim::LrShape::kConstant &&
                     config.run.total_tokens == config.run.tokens &&
                     config.schedule.total_tokens == static_cast<double>(config.run.tokens),
      .metrics_every_steps = config.metrics.every_steps,
      .device = {},
      .fewer_bits = {},
      .health = {.upload = config.bandwidth.upload_mbit * kBytesPerMbit,
                 .download = config.bandwidth.download_mbit * kBytesPerMbit},
  };
  if (config.schedule.shape != optim::LrShape::kConstant) {
    network.end_rate_max = config.schedule.peak * (1 + config.schedule.floor_ratio) / 2;
  }
  network.schedule_tokens = config.schedule.total_tokens;
  const optim::WireFormat configured = config.outer.wire_format;
  constexpr optim::WireFormat kFewest = optim::kWireFormats.back();
  if (config.bandwidth.fewer_bits && optim::is_modular(configured) && configured != kFewest) {
    network.fewer_bits = {
        .code = static_cast<std::uint8_t>(kFewest),
        .configured = static_cast<std::uint8_t>(configured),
        .ratio = static_cast<double>(optim::code_bits(configured)) / optim::code_bits(kFewest)};
  }
  for (const std::string& seed : config.gossip.seeds) {
    auto address = parse_seed(seed);
    if (!address.ok()) return std::move(address).error().with_context("gossip.seeds");
    network.seeds.push_back(address.value());
  }
  return network;
}

void leave_out_own_seed(NetworkConfig& network, const gossip::PublicKey& own) {
  const auto is_own = [&own](const gossip::PeerAddress& seed) { return seed.key == own; };
  if (std::erase_if(network.seeds, is_own) == 0) return;
  constexpr const char* kRemedy =
      "if that is another machine, one of the two needs a key of its own ('starling keygen FILE', "
      "trust.key)";
  if (network.seeds.empty()) {
    log_warning(
        "gossip.seeds names nobody but this peer itself, which is passed over: it calls nobody, "
        "and waits to be called; {}",
        kRemedy);
    return;
  }
  log_info("gossip.seeds names this peer itself, which is passed over; {}", kRemedy);
}

TrafficPlan traffic_plan(const BandwidthConfig& bandwidth, const std::filesystem::path& file,
                         WallTime now) {
  auto quiet = parse_quiet_hours(bandwidth.quiet_hours);
  STARLING_ASSERT(quiet.ok());  // load_config has seen it
  TrafficPlan plan(static_cast<std::uint64_t>(bandwidth.gigabytes_per_day * 1e9), quiet.value());
  auto counted = read_text(file, kTrafficBytesMax);
  if (counted.ok() && plan.limited()) plan.restore(counted.value(), now);
  return plan;
}

}  // namespace starling::peer
