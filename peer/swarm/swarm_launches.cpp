#include "peer/swarm/swarm_launches.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "peer/config/config_text.h"
#include "peer/files/run_folder.h"

namespace starling::peer {

namespace {

constexpr std::size_t kSeedsMax = 2;  // the others are heard of through these

std::string seeds_of(std::size_t peer, const SwarmFacts& facts) {
  std::string list;
  std::size_t named = 0;
  for (std::size_t other = 0; other < facts.ports.size() && named < kSeedsMax; ++other) {
    if (other == peer) continue;
    list += fmt::format("{}\"{}@127.0.0.1:{}\"", named == 0 ? "" : ", ",
                        gossip::to_string(facts.keys[other]), facts.ports[other]);
    ++named;
  }
  return "[" + list + "]";
}

bool sets(std::span<const std::string> overrides, std::string_view key) {
  return std::any_of(overrides.begin(), overrides.end(), [key](const std::string& override_text) {
    const std::size_t equals = override_text.find('=');
    std::string_view name = std::string_view(override_text).substr(0, equals);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    return name == key;
  });
}

// All together, as a peer's own start knows nothing of the others. One thread each is always
// theirs.
Status judge_threads(std::uint32_t peers, const SwarmFacts& facts) {
  if (!facts.gpus.empty()) return ok_status();  // whose peers compute by no threads
  const auto processors = static_cast<std::uint32_t>(facts.processors.allowed.size());
  const std::uint32_t most = std::max(1U, processors / peers);
  if (!facts.pin || processors == 0 || facts.threads <= most) return ok_status();
  return Error(ErrorCode::kInvalidConfig,
               fmt::format("device.threads = {}, but {} peers share {} processors: set it to {}, "
                           "or device.pin = false",
                           facts.threads, peers, processors, most));
}

// Empty: all peers may use all processors, and are not pinned.
std::vector<std::vector<int>> shares_of_processors(const SwarmOptions& options,
                                                   const SwarmFacts& facts) {
  const std::size_t wanted = std::size_t{options.peers} * threads_of_each(options, facts);
  if (!facts.pin || wanted > facts.processors.allowed.size()) return {};
  return divide_processors(facts.processors, options.peers);
}

std::vector<std::string> restart_arguments(const SwarmFacts& facts) {
  if (!facts.begins_anew) return {};
  return {"--set", "checkpoint.resume=auto"};
}

}  // namespace

std::filesystem::path SwarmFacts::folder_of(std::size_t peer) const {
  return run_folder / swarm_peer_name(peer);
}

std::string swarm_peer_name(std::size_t peer) { return fmt::format("{}{}", kPeerNameStart, peer); }

std::uint32_t threads_of_each(const SwarmOptions& options, const SwarmFacts& facts) {
  if (facts.threads != 0) return facts.threads;
  const auto processors = static_cast<std::uint32_t>(usable_processors(facts.processors));
  const std::uint32_t share = std::max(1U, processors / options.peers);
  return share > 2 ? share - 1 : share;
}

Status check_swarm_options(const SwarmOptions& options) {
  if (options.peers == 0 || options.peers > kSwarmPeersMax) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("--peers {} is outside [1, {}]", options.peers, kSwarmPeersMax));
  }
  for (const SlowPeer& slow : options.slow) {
    if (slow.peer >= options.peers) {
      return Error(ErrorCode::kInvalidConfig,
                   fmt::format("--slow {}: there are peers 0 to {}", slow.peer, options.peers - 1));
    }
    if (!(slow.factor >= 1)) {
      return Error(ErrorCode::kInvalidConfig,
                   fmt::format("--slow {}={}: the factor is at least 1", slow.peer, slow.factor));
    }
  }
  // The launcher gives every peer its own; one value for all of them cannot work.
  for (const std::string_view key :
       {"run.peer_name", "gossip.listen", "gossip.advertise", "trust.key"}) {
    if (options.peers > 1 && sets(options.overrides, key)) {
      return Error(ErrorCode::kInvalidConfig, fmt::format("--set {}: each peer of a swarm needs "
                                                          "its own, and is given it",
                                                          key));
    }
  }
  return ok_status();
}

Result<std::vector<PeerLaunch>> plan_launches(const SwarmOptions& options,
                                              const SwarmFacts& facts) {
  if (Status checked = check_swarm_options(options); !checked.ok())
    return std::move(checked).error();
  if (Status fit = judge_threads(options.peers, facts); !fit.ok()) return std::move(fit).error();
  STARLING_ASSERT(facts.ports.size() == options.peers);
  STARLING_ASSERT(facts.keys.size() == options.peers);
  std::vector<PeerLaunch> launches;
  const std::vector<std::vector<int>> shares = shares_of_processors(options, facts);
  for (std::size_t peer = 0; peer < options.peers; ++peer) {
    std::vector<std::string> arguments = {options.program.string(), "peer", options.config.string(),
                                          "--status-json"};
    const auto set = [&arguments](std::string_view key, const auto& value) {
      arguments.push_back("--set");
      arguments.push_back(fmt::format("{}={}", key, value));
    };
    set("run.peer_name", in_quotes(swarm_peer_name(peer)));
    set("gossip.listen", fmt::format("\"127.0.0.1:{}\"", facts.ports[peer]));
    set("gossip.advertise", "\"\"");  // the file may name this machine as others reach it
    set("gossip.seeds", seeds_of(peer, facts));
    set("trust.key", in_quotes((facts.folder_of(peer) / kKeyFile).string()));
    set("trust.allow", in_quotes(facts.allow_file().string()));
    if (facts.threads == 0) set("device.threads", threads_of_each(options, facts));
    if (shares.empty()) set("device.pin", false);
    if (facts.micro_batch) set("batch.micro", *facts.micro_batch);
    set("run.total_tokens", facts.total_tokens);
    for (const SlowPeer& slow : options.slow) {
      if (slow.peer == peer) set("test.slow_down_factor", slow.factor);
    }
    for (const std::string& value : options.overrides) {
      arguments.push_back("--set");
      arguments.push_back(value);
    }
    // Behind overrides: what they name is no single one.
    if (!facts.gpus.empty()) {
      set("device.name", fmt::format("cuda:{}", facts.gpus[peer % facts.gpus.size()]));
    }
    // Behind an override, which names the first.
    if (!facts.status_pages.empty()) set("status.listen", in_quotes(facts.status_pages[peer]));
    launches.push_back(
        {.name = swarm_peer_name(peer),
         .command = {.arguments = std::move(arguments),
                     .log = facts.folder_of(peer) / "log.txt",
                     .processors = shares.empty() ? std::vector<int>() : shares[peer]},
         .restart_arguments = restart_arguments(facts)});
  }
  return launches;
}

}  // namespace starling::peer
