// What `starling doctor` looks for in files: the key and who is trusted, the folder of the run, the
// data and the checkpoint that a run would go on from. Changes nothing. Start-up and tools;
// blocking: whole files are read unless headers are enough.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gossip/net/identity.h"
#include "peer/config/config.h"
#include "peer/doctor/doctor_report.h"
#include "peer/files/dataset.h"
#include "peer/roles/run_start.h"

namespace starling::peer {

// Who this peer is. `identity` is set if it has a usable key.
Finding check_key(const PeerConfig& config, std::optional<gossip::Identity>& identity);
// The allow-list and the secret. `own`: null if this peer has no key yet.
std::vector<Finding> check_trust(const PeerConfig& config, const gossip::PublicKey* own);

// Of a folder where another process of this peer runs, or that a clock ahead of ours has written:
// ours gives `incarnation`.
Finding check_folder(const PeerConfig& config, std::uint64_t incarnation);

std::vector<Finding> check_data(const PeerConfig& config, ShardCheck check);

Finding check_checkpoint(const PeerConfig& config, const CheckpointDigests& digests);

}  // namespace starling::peer
