// The commands of a swarm's peers on one machine: each gets a name, ports, seeds, a key, a status
// page and a share of the processors of its own (unless there are too few or the user pins
// nothing), and of the GPUs one after the other, from the first on again where there are fewer than
// peers. What the user sets comes behind that on each command line and
// wins, but for what names one of several: the device where GPUs are shared out, the first page.
// Pure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gossip/public_key.h"
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

inline constexpr std::uint32_t kSwarmPeersMax = 256;
inline constexpr std::string_view kPeerNameStart = "peer-";

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
  std::vector<std::string> status_pages{};  // status.listen of each; empty: nobody has one
  bool begins_anew = false;  // whatever checkpoints there are (checkpoint.resume = "never")

  std::filesystem::path folder_of(std::size_t peer) const;
  std::filesystem::path allow_file() const { return run_folder / "allow.txt"; }
};

std::string swarm_peer_name(std::size_t peer);

// As default_threads() has it of the processors that each gets.
std::uint32_t threads_of_each(const SwarmOptions& options, const SwarmFacts& facts);

// What is wrong with them whatever the facts are.
Status check_swarm_options(const SwarmOptions& options);

// The command of every peer. Who begins anew does so once: started again, a peer goes on from what
// it has written since.
Result<std::vector<PeerLaunch>> plan_launches(const SwarmOptions& options, const SwarmFacts& facts);

}  // namespace starling::peer
