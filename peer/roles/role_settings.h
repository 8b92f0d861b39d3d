// What the roles want to hear of a configuration that was loaded. Start-up only.
#pragma once

#include <filesystem>
#include <optional>

#include "gossip/net/asio_driver.h"
#include "peer/config/config.h"
#include "peer/config/traffic_plan.h"
#include "peer/files/checkpoint.h"
#include "peer/files/dataset.h"
#include "peer/files/run_folder.h"
#include "peer/roles/memory_plan.h"
#include "peer/roles/network.h"
#include "peer/roles/trainer.h"
#include "peer/states/stripe_table.h"

namespace starling::peer {

// Where a peer of this configuration keeps its things.
RunFolderNames run_folder_names(const PeerConfig& config);
std::filesystem::path checkpoint_folder(const PeerConfig& config);
std::filesystem::path key_file(const PeerConfig& config);

// The data that it trains on and is measured on.
struct RunData {
  Dataset training;
  std::optional<Dataset> validation;
};
Result<RunData> open_data(const PeerConfig& config, ShardCheck check = ShardCheck::kWhole);

// What peers must agree on before they exchange. Weights mean nothing to a peer whose tokens are
// others: the name of a tokenizer is part of the model here, but not in checkpoints, which name it
// themselves. "bytes" and one that is not known (empty) add nothing. Of checkpoints the seed is no
// part either: they hold the weights that were drawn from it.
gossip::RunIdentity run_identity(const RunConfig& run, const CheckpointDigests& digests,
                                 std::string_view tokenizer);
TrainerConfig trainer_config(const PeerConfig& config, bool exchanges,
                             const DeviceNeeds& needs = {});
gossip::DriverLimits driver_limits(const PeerConfig& config, const StripeTable& stripes);
// But for what only a running peer knows.
Result<NetworkConfig> network_config(const PeerConfig& config);
// One list of seeds may serve all machines of a swarm. Says in the log where it named this peer.
void leave_out_own_seed(NetworkConfig& network, const gossip::PublicKey& own);
// With what earlier processes counted in `file`, if it is there and counting is wanted.
TrafficPlan traffic_plan(const BandwidthConfig& bandwidth, const std::filesystem::path& file,
                         WallTime now);

}  // namespace starling::peer
