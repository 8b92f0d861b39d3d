#include "peer/swarm/swarm_launcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "peer/config/addresses.h"
#include "peer/config/config_ranges.h"
#include "peer/files/checkpoint_store.h"
#include "peer/files/key_files.h"
#include "peer/files/run_folder.h"
#include "peer/io/file_io.h"
#include "peer/io/human_text.h"
#include "peer/machine/backend.h"
#include "peer/machine/free_memory.h"
#include "peer/roles/role_settings.h"
#include "peer/status/status_server.h"
#include "peer/swarm/port_pairs.h"
#include "peer/swarm/swarm_finish.h"
#include "peer/swarm/swarm_memory.h"

namespace starling::peer {

namespace {

constexpr std::uint64_t kTerminalRefreshMs = 1000;
constexpr std::uint64_t kPlainRefreshMs = 10000;
constexpr std::uint32_t kPortsTried = 1000;  // for pages

// Sets facts.micro_batch, but on GPUs, whose memory only they know.
Status share_memory(const SwarmOptions& options, const PeerConfig& config, SwarmFacts& facts) {
  SharedMemory memory{.peers = options.peers, .gpus = !facts.gpus.empty()};
  const bool known = memory.gpus || config.device.name == "cpu" || config.device.name == "auto";
  const auto available = memory_available();
  if (!known || !available) return ok_status();
  memory.available = *available;
  memory.threads = static_cast<int>(threads_of_each(options, facts));
  auto micro = micro_batch_of_each(config, memory);
  if (!micro.ok()) return std::move(micro).error();
  if (!config.micro_batch && !memory.gpus) facts.micro_batch = micro.value();
  return ok_status();
}

// What a file may say for one peer, but not for several.
Status check_config(const SwarmOptions& options, const PeerConfig& config) {
  if (options.peers == 1 || config.checkpoint.folder.empty()) return ok_status();
  return Error(ErrorCode::kInvalidConfig,
               fmt::format("checkpoint.folder = \"{}\": all peers of this swarm would write their "
                           "checkpoints there; leave it out, and each has a folder in its own",
                           config.checkpoint.folder));
}

// Peers that run have read the list, and would read another one.
Status check_unused(const std::filesystem::path& run_folder) {
  for (const std::filesystem::path& peer : peers_in(run_folder)) {
    if (!peer.filename().string().starts_with(kPeerNameStart)) continue;  // not of a swarm
    auto last = last_start(peer);
    if (!last.ok()) return std::move(last).error();
    if (last.value().process.empty()) continue;
    return Error(ErrorCode::kUnavailable,
                 fmt::format("{} is in use by process {}: end that swarm, or give this one another "
                             "run.name",
                             peer.string(), last.value().process));
  }
  return ok_status();
}

// The keys of this swarm's peers and the list of them: nobody else on this machine takes part.
Status make_keys(SwarmFacts& facts) {
  std::string list = "# The peers of this swarm; 'starling swarm' writes this anew.\n";
  for (std::size_t peer = 0; peer < facts.ports.size(); ++peer) {
    auto identity = load_or_make_identity(facts.folder_of(peer) / kKeyFile);
    if (!identity.ok()) return std::move(identity).error();
    facts.keys.push_back(identity.value().key());
    list += fmt::format("{} {}\n", gossip::to_string(facts.keys.back()), swarm_peer_name(peer));
  }
  return replace_file(facts.allow_file(), list);
}

// A page for each peer on a port of its own: those that are free now, from the configured one up;
// who comes first later has it. 0, any port, is good for all of them, and for those that are left
// at the last port. What fails for another reason than being in use each peer says itself.
Result<std::vector<std::string>> status_pages(const std::string& first,
                                              const std::vector<std::uint16_t>& pairs) {
  const std::size_t peers = pairs.size();
  auto address = parse_status_listen(first);  // empty: nobody is to have one
  if (!address.ok()) return std::vector<std::string>();
  std::vector<std::string> pages;
  const std::uint32_t from = address.value().control_port;
  const std::uint32_t end = std::min<std::uint32_t>(from + kPortsTried, UINT16_MAX + 1);
  for (std::uint32_t port = from; port != 0 && port < end && pages.size() < peers; ++port) {
    const auto is_of = [port](std::uint16_t pair) { return port == pair || port == pair + 1U; };
    if (std::any_of(pairs.begin(), pairs.end(), is_of)) continue;
    auto server = StatusServer::open({.host = std::string(gossip::host(address.value())),
                                      .port = static_cast<std::uint16_t>(port)});
    if (server.ok()) {
      pages.push_back(fmt::format("{}:{}", first.substr(0, first.rfind(':')), port));
    } else if (server.error().code() == ErrorCode::kInvalidConfig) {
      return std::move(server).error().with_context("status.listen");
    } else if (server.error().code() != ErrorCode::kUnavailable) {
      return std::vector<std::string>(peers, first);
    }
  }
  pages.resize(peers, first.substr(0, first.rfind(':')) + ":0");
  return pages;
}

std::string status_pages_line(const SwarmFacts& facts) {
  const std::vector<std::string>& pages = facts.status_pages;
  if (pages.empty()) return {};
  if (pages.back().ends_with(":0")) {
    return "status pages: each peer's log.txt tells where its own is\n";
  }
  if (pages.size() == 1) return fmt::format("status page: http://{}/\n", pages.front());
  const auto port = [](const std::string& page) {
    return parse_status_listen(page).value().control_port;
  };
  if (port(pages.back()) - port(pages.front()) == std::ssize(pages) - 1) {
    return fmt::format("status pages: http://{}/ to http://{}/\n", pages.front(), pages.back());
  }
  return fmt::format("status pages: http://{}/\n", fmt::join(pages, "/ http://"));
}

// What every peer of the swarm has in common. The total of tokens is N times one peer's budget,
// whatever the file says: a file may be meant for another number of peers.
Result<PeerConfig> load_swarm_config(const SwarmOptions& options) {
  const auto load = [&options](std::uint64_t total_tokens) {
    std::vector<std::string> overrides = {fmt::format("run.total_tokens={}", total_tokens)};
    overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
    // Each peer listens elsewhere, so the file's port may be that of a page.
    overrides.insert(overrides.end(), {"gossip.listen=127.0.0.1:0", "gossip.advertise="});
    return load_config(options.config, overrides);
  };
  // The budget has to be known first; no bound of the schedule is above so large a total.
  auto first = load(kTokensMax);
  if (!first.ok() && options.overrides.empty()) {  // told as the file's, not as of a --set
    if (auto alone = load_config(options.config, {}); !alone.ok()) return alone;
  }
  if (!first.ok()) return first;
  return load(first.value().run.tokens * options.peers);
}

// What all can be told at their start.
std::string opening_lines(const SwarmOptions& options, const PreparedSwarm& swarm) {
  const SwarmFacts& facts = swarm.facts;
  std::string text =
      fmt::format("{} in {}", counted(options.peers, "peer"), facts.run_folder.string());
  std::size_t resumed = 0;
  for (std::size_t peer = 0; peer < options.peers && !facts.begins_anew; ++peer) {
    auto found = checkpoints_in(facts.folder_of(peer));
    resumed += found.ok() && !found.value().empty();
  }
  if (resumed == options.peers) {
    text += ", going on from what is there";
  } else if (resumed > 0) {
    text += fmt::format(", {} of them going on from what is there", resumed);
  }
  text += '\n' + describe_gpus(facts.gpus.size(), options.peers, !swarm.config.micro_batch);
  return text + status_pages_line(facts);
}

}  // namespace

Result<PreparedSwarm> prepare_swarm(const SwarmOptions& options) {
  if (Status sound = check_swarm_options(options); !sound.ok()) return std::move(sound).error();
  auto config = load_swarm_config(options);
  if (!config.ok()) return std::move(config).error();
  Status fits = check_config(options, config.value());
  if (!fits.ok()) return std::move(fits).error();
  // What every peer would fail at is said once, before any starts.
  auto data = open_data(config.value(), ShardCheck::kHeader);
  if (!data.ok()) return std::move(data).error();
  PreparedSwarm swarm{.config = std::move(config).value(), .facts = {}, .launches = {}};
  const PeerConfig& known = swarm.config;
  SwarmFacts& facts = swarm.facts;
  facts = {.run_folder = std::filesystem::path(known.run.folder) / known.run.name,
           .total_tokens = known.run.total_tokens,
           .threads = known.device.threads,
           .pin = known.device.pin,
           .processors = processor_facts()};
  facts.begins_anew = known.checkpoint.resume == Resume::kNever;
  if (known.device.name == "auto" || known.device.name == "cuda") {
    auto least = gpu_bytes_of_each(known);
    if (!least.ok()) return std::move(least).error();
    facts.gpus = useful_gpus(least.value());
  }
  if (Status fit = share_memory(options, known, facts); !fit.ok()) return std::move(fit).error();
  Status unused = check_unused(facts.run_folder);
  if (!unused.ok()) return std::move(unused).error();
  auto ports = find_port_pairs(options.peers, static_cast<std::uint64_t>(::getpid()));
  if (!ports.ok()) return std::move(ports).error();
  facts.ports = std::move(ports).value();
  auto pages = status_pages(known.status.listen, facts.ports);
  if (!pages.ok()) return std::move(pages).error();
  facts.status_pages = std::move(pages).value();
  Status keys = make_keys(facts);
  if (!keys.ok()) return std::move(keys).error();
  auto launches = plan_launches(options, facts);
  if (!launches.ok()) return std::move(launches).error();
  swarm.launches = std::move(launches).value();
  return swarm;
}

Status run_swarm(const SwarmOptions& options, std::ostream& out) {
  auto prepared = prepare_swarm(options);
  if (!prepared.ok()) return std::move(prepared).error();
  const PeerConfig& known = prepared.value().config;
  const SwarmFacts& facts = prepared.value().facts;

  out << opening_lines(options, prepared.value()) << std::flush;
  ProgressDisplay display(out, options.columns);
  SwarmSupervisor swarm(std::move(prepared.value().launches),
                        {.restart = options.restart,
                         .refresh_ms = options.columns > 0 ? kTerminalRefreshMs : kPlainRefreshMs},
                        display);
  Status ran = swarm.run();
  if (!ran.ok()) return ran;
  Status finished = finish_swarm(options, known, facts, swarm, out);
  if (!finished.ok()) return finished;
  std::size_t failures = 0;
  for (std::size_t peer = 0; peer < swarm.peers().size(); ++peer) failures += swarm.failed(peer);
  if (failures == 0) return ok_status();
  return Error(ErrorCode::kUnavailable,
               fmt::format("{} of {} peers failed", failures, options.peers));
}

}  // namespace starling::peer
