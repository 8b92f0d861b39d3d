// `starling swarm`: a whole swarm on one machine. Plans N peers (names, ports, keys, processors:
// each its own, unless there are too few or the user pins nothing; GPUs: one after the other, from
// the first on again where there are fewer than peers, unless the user names one),
// runs them as child processes (swarm_supervisor.h), prints what each did, averages their last
// checkpoints and measures the average. What the user sets comes last on each peer's command line
// and wins. Blocking; errors are what stopped it, or that a peer failed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gossip/public_key.h"
#include "peer/config/config.h"
#include "peer/machine/processors.h"
#include "peer/swarm/swarm_supervisor.h"

namespace starling::peer {

struct SlowPeer {
  std::uint32_t peer = 0;
  double factor = 1;  // its steps take this many times as long
};

struct SwarmOptions {
  std::filesystem::path program;  // what each peer runs: this binary
  std::filesystem::path config;
  std::uint32_t peers = 4;
  std::vector<std::string> overrides;  // "section.key=value", for every peer
  std::vector<SlowPeer> slow;
  std::optional<std::string> sample;  // a prompt for the averaged model at the end
  bool restart = false;
  std::size_t columns = 0;  // of the terminal; 0: the output is no terminal
};

// What the plan needs to know of the configuration and of the machine.
struct SwarmFacts {
  std::filesystem::path run_folder;       // of all peers
  std::uint64_t total_tokens = 0;         // of the whole swarm
  std::uint32_t threads = 0;              // of each peer, set by the user; 0: not set
  bool pin = true;                        // unless the user has set it to false
  ProcessorFacts processors;              // of this machine
  std::vector<std::uint16_t> ports{};     // one per peer; its bulk port is the one above
  std::vector<gossip::PublicKey> keys{};  // one per peer
  std::vector<int> gpus{};                // to be shared out; empty: the device is as configured
  // batch.micro of each peer, where the user has left it open and all compute on the CPU.
  std::optional<std::int64_t> micro_batch{};
  std::string status_listen{};  // of the first peer; those of the others come behind it
  bool begins_anew = false;     // whatever checkpoints there are (checkpoint.resume = "never")
};

inline constexpr std::uint32_t kSwarmPeersMax = 256;

// The command of every peer. Who begins anew does so once: started again, a peer goes on from what
// it has written since. Pure.
Result<std::vector<PeerLaunch>> plan_launches(const SwarmOptions& options, const SwarmFacts& facts);

// A swarm that can be started: its ports are chosen, its keys and its list are made.
struct PreparedSwarm {
  PeerConfig config;  // what its peers have in common
  SwarmFacts facts;
  std::vector<PeerLaunch> launches;
};
Result<PreparedSwarm> prepare_swarm(const SwarmOptions& options);

Status run_swarm(const SwarmOptions& options, std::ostream& out);

}  // namespace starling::peer
