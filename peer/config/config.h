// PeerConfig: everything a peer can be told, from a TOML file and `--set section.key=value`.
//
// Each value has one description (config_describe.h): its key, its range and why it exists.
// Parsing, range checks, the text of `starling config` and the dump of the effective configuration
// all come from it. Units are in the names; tokens, steps and milliseconds are counts.
//
// Errors (kInvalidConfig) name file and line, list all that is wrong at once, and suggest the
// nearest known key for an unknown one. A loaded configuration is complete: zeros that mean "derive
// it" are filled in, and dump() of it loads to the same. Plain values, any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "gossip/config.h"
#include "model/llama_config.h"
#include "model/token_batch.h"
#include "optim/inner_adamw.h"
#include "optim/outer_rule.h"
#include "optim/schedule.h"
#include "optim/wire_format.h"
#include "peer/config/simulate_settings.h"

namespace starling::peer {

struct RunConfig {
  std::string name = "starling";
  std::string folder = "runs";
  std::string peer_name = "peer";
  std::uint64_t seed = 1;
  std::string start;
  std::uint64_t tokens = 1'000'000;
  std::uint64_t total_tokens = 0;
  LogLevel log_level = LogLevel::kInfo;
};

// How many steps of training a round of this peer takes.
enum class LocalSteps : std::uint8_t {
  kFixed,    // steps_per_round
  kDynamic,  // as many as it does while the fastest peer does steps_per_round
};

struct OuterSettings {
  optim::OuterConfig rule;
  optim::FragmentSchedule rounds = optim::outer_defaults(optim::OuterMethod::kPairGossip).rounds;
  LocalSteps local_steps = LocalSteps::kDynamic;
  optim::WireFormat wire_format = optim::WireFormat::kMod8;
  double lag_discount = 1;  // gossip/freshness.h
  float clip_factor = 4.0F;
};

struct GossipSettings {
  std::string listen = "127.0.0.1:7700";
  std::uint16_t bulk_port = 0;
  std::string advertise;
  std::vector<std::string> seeds;
  std::uint32_t ping_interval_ms = 1000;
  std::uint32_t suspect_after_ms = 3000;
  std::uint32_t dead_after_ms = 5000;
  std::uint32_t redial_interval_ms = 5000;
  std::uint32_t offer_timeout_ms = 5000;
  std::uint32_t stripe_timeout_ms = 60'000;
  std::uint32_t query_after_ms = 10'000;
  double closing_seconds = 5;
  std::uint32_t exchanges_initiated_max = 1;
  std::uint32_t exchanges_accepted_max = 2;
  std::uint32_t partners_tried_max = 3;
  double locality = 0;
  std::uint32_t peers_max = 1024;
  std::uint16_t window = 16;
  std::uint32_t slots = 0;  // 0: slot_count() of peer/roles/pools.h
  std::uint32_t silence_min_ms = 2000;
  std::uint32_t connections_max = 64;
};

// What the owner of the line allows. Megabits and gigabytes are decimal, as providers sell them.
struct BandwidthConfig {
  double upload_mbit = 0;
  double download_mbit = 0;
  double gigabytes_per_day = 0;
  std::string quiet_hours;
  bool fewer_bits = true;
};

// Between peers that cannot be called.
struct RelaySettings {
  bool volunteer = false;
  bool use = true;
  double mbit = 10;
  std::uint32_t holders = 32;
};

enum class JoinState : std::uint8_t { kNone, kWeights, kWeightsAndMoments };

struct JoinConfig {
  JoinState state = JoinState::kWeightsAndMoments;
  std::uint32_t donors = 4;
  std::uint32_t serve_max = 2;
  double wait_seconds = 2;
  double patience_seconds = 60;
  std::uint64_t newcomer_tokens = 65536;
  double missed_seconds = 1800;
};

struct TrustSettings {
  std::string key;
  std::string allow;
  std::string secret;
};

struct DataConfig {
  std::vector<std::string> train{"data/demo/train"};
  std::vector<std::string> validation{"data/demo/validation"};
  std::uint64_t seed = 1;
};

enum class Resume : std::uint8_t { kAuto, kNever, kRequired };

struct CheckpointConfig {
  std::string folder;
  std::uint64_t every_steps = 1000;
  std::uint32_t keep = 3;
  Resume resume = Resume::kAuto;
};

struct MetricsConfig {
  std::uint64_t every_steps = 10;
  std::uint64_t validate_every_steps = 100;
  std::uint32_t validation_batches = 8;
  bool tensorboard = true;
};

struct StatusSettings {
  std::string listen = "127.0.0.1:7780";
};

enum class ComputeType : std::uint8_t { kAuto, kFp32, kBf16 };

struct DeviceConfig {
  std::string name = "auto";
  std::uint32_t threads = 0;
  bool pin = true;
  ComputeType compute = ComputeType::kAuto;
};

enum class RecomputeChoice : std::uint8_t { kAuto, kGates, kNorms, kBlocks };

struct TestConfig {
  double slow_down_factor = 1;
};

struct PeerConfig {
  RunConfig run;
  model::LlamaConfig model;
  model::BatchShape batch{.sequences = 8, .tokens = 128};
  std::optional<std::int64_t> micro_batch{};  // batch.micro; empty: "auto" (roles/memory_plan.h)
  RecomputeChoice recompute = RecomputeChoice::kAuto;  // batch.recompute
  optim::InnerConfig inner;  // [optimizer], but for its learning rate, which is schedule.peak
  optim::LrConfig schedule{.shape = optim::LrShape::kWarmupStableDecay, .peak = 1e-3};
  OuterSettings outer;
  GossipSettings gossip;
  BandwidthConfig bandwidth;
  RelaySettings relay;
  JoinConfig join;
  TrustSettings trust;
  DataConfig data;
  CheckpointConfig checkpoint;
  MetricsConfig metrics;
  StatusSettings status;
  DeviceConfig device;
  SimulateSettings simulate;
  TestConfig test;
};

// Who reads it. A peer has no use for the outer methods that only simulated swarms run. What a
// checkpoint holds tells of a model and its run, and may be older than a bound of what runs today.
enum class ConfigUse : std::uint8_t { kPeer, kSimulate, kStored };

// The file, then each override "section.key=value" in order; derived values filled in; validated.
// A value of an override that is not TOML is taken as a string, so that quotes can be left out.
Result<PeerConfig> load_config(const std::filesystem::path& file,
                               std::span<const std::string> overrides,
                               ConfigUse use = ConfigUse::kPeer);
// The same for a text that is at hand; `name` stands in errors.
Result<PeerConfig> parse_config(std::string_view text, std::string_view name,
                                std::span<const std::string> overrides,
                                ConfigUse use = ConfigUse::kPeer);

// What the outer method's authors set, in no more fragments than a model of so many layers has.
optim::OuterDefaults outer_defaults(optim::OuterMethod method, std::int64_t layers);
// schedule.decay_start_tokens where it is not set, in whole tokens.
double derived_decay_start(const optim::LrConfig& schedule);

// What holds between fields; every message names both. Part of load_config.
Status validate(const PeerConfig& config, ConfigUse use = ConfigUse::kPeer);

// The effective configuration as TOML.
std::string dump(const PeerConfig& config);
// Every key with its meaning, range and default: itself a configuration file.
std::string describe_config();

// --- what other rooms want to hear ---
gossip::GossipConfig gossip_config(const PeerConfig& config);
// Names run, model and layout in one line, for people and checkpoints.
std::string run_title(const PeerConfig& config);
}  // namespace starling::peer
