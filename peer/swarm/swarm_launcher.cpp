#include "peer/swarm/swarm_launcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "peer/config/addresses.h"
#include "peer/config/config_ranges.h"
#include "peer/config/config_text.h"
#include "peer/files/key_files.h"
#include "peer/files/run_folder.h"
#include "peer/io/file_io.h"
#include "peer/io/human_text.h"
#include "peer/machine/backend.h"
#include "peer/machine/free_memory.h"
#include "peer/models/model_commands.h"
#include "peer/roles/role_settings.h"
#include "peer/swarm/port_pairs.h"
#include "peer/swarm/swarm_memory.h"

namespace starling::peer {

namespace {

constexpr std::uint64_t kTerminalRefreshMs = 1000;
constexpr std::uint64_t kPlainRefreshMs = 10000;
constexpr std::size_t kSeedsMax = 2;  // the others are heard of through these
constexpr std::int64_t kSampleTokens = 200;
constexpr std::string_view kPeerNameStart = "peer-";

std::string peer_name(std::size_t peer) { return fmt::format("{}{}", kPeerNameStart, peer); }

std::filesystem::path key_file(const SwarmFacts& facts, std::size_t peer) {
  return facts.run_folder / peer_name(peer) / "key";
}

std::filesystem::path allow_file(const SwarmFacts& facts) { return facts.run_folder / "allow.txt"; }

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

// Each peer its own port, from the configured one on. 0, any port, is good for all of them.
std::string status_listen_of(std::size_t peer, std::string_view first) {
  auto address = parse_status_listen(first);
  if (!address.ok() || address.value().control_port == 0) return std::string(first);
  const std::size_t port = address.value().control_port + peer;
  return fmt::format("{}:{}", first.substr(0, first.rfind(':')), port > UINT16_MAX ? 0 : port);
}

std::string status_pages_line(std::string_view listen) {
  auto address = parse_status_listen(listen);
  const bool any = address.ok() && address.value().control_port == 0;
  if (any) return "status pages: each peer's log.txt tells where its own is\n";
  return fmt::format("status pages: http://{}/ and the ports behind it\n", listen);
}

bool sets(std::span<const std::string> overrides, std::string_view key) {
  return std::any_of(overrides.begin(), overrides.end(), [key](const std::string& override_text) {
    const std::size_t equals = override_text.find('=');
    std::string_view name = std::string_view(override_text).substr(0, equals);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    return name == key;
  });
}

// As default_threads() has it of the processors that each gets.
std::uint32_t threads_of_each(const SwarmOptions& options, const SwarmFacts& facts) {
  if (facts.threads != 0) return facts.threads;
  const auto processors = static_cast<std::uint32_t>(usable_processors(facts.processors));
  const std::uint32_t share = std::max(1U, processors / options.peers);
  return share > 2 ? share - 1 : share;
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

Status check_options(const SwarmOptions& options) {
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

std::vector<std::string> restart_arguments(const SwarmFacts& facts) {
  if (!facts.begins_anew) return {};
  return {"--set", "checkpoint.resume=auto"};
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
    auto identity = load_or_make_identity(key_file(facts, peer));
    if (!identity.ok()) return std::move(identity).error();
    facts.keys.push_back(identity.value().key());
    list += fmt::format("{} {}\n", gossip::to_string(facts.keys.back()), peer_name(peer));
  }
  return replace_file(allow_file(facts), list);
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

// Checkpoints of the peers that ended well: a peer that died has stale weights.
std::vector<std::filesystem::path> finished_checkpoints(const SwarmSupervisor& swarm) {
  std::vector<std::filesystem::path> paths;
  for (std::size_t peer = 0; peer < swarm.peers().size(); ++peer) {
    const ChildView& view = swarm.peers()[peer];
    if (swarm.failed(peer) || !view.wrote_checkpoint()) continue;
    paths.push_back(view.latest->checkpoint);
  }
  return paths;
}

// Why there is nothing to average.
Error nothing_finished(const SwarmSupervisor& swarm, const SwarmFacts& facts) {
  const auto peers = swarm.peers();
  const bool any = std::any_of(peers.begin(), peers.end(),
                               [](const ChildView& peer) { return peer.wrote_checkpoint(); });
  return Error(
      ErrorCode::kNotFound,
      fmt::format("{}: what ended them is told above, and in the log.txt of each in {}",
                  any ? "there is no average, as the peers that wrote a checkpoint failed later"
                      : "no peer wrote a checkpoint this time",
                  facts.run_folder.string()));
}

Result<AverageView> average_and_measure(const std::vector<std::filesystem::path>& inputs,
                                        const std::filesystem::path& out, const PeerConfig& config,
                                        const std::string& device) {
  auto merged = average({.out = out, .inputs = inputs});
  if (!merged.ok()) return std::move(merged).error();
  AverageView view{.checkpoint = out.string(), .tokens = merged.value().tokens};
  if (config.data.validation.empty()) return view;
  // The batches that the peers measure themselves on, so that the losses can be compared.
  auto measured = evaluate({.checkpoint = out,
                            .data = config.data.validation,
                            .runner = {.device = device},
                            .batches = config.metrics.validation_batches});
  if (!measured.ok()) return std::move(measured).error();
  view.validation_loss = measured.value().loss;
  return view;
}

Status finish(const SwarmOptions& options, const PeerConfig& config, const SwarmFacts& facts,
              const SwarmSupervisor& swarm, std::ostream& out) {
  const std::vector<std::filesystem::path> inputs = finished_checkpoints(swarm);
  // On one of the peers' GPUs: "cuda" is the first, which may be another's.
  const std::string device =
      facts.gpus.empty() ? config.device.name : fmt::format("cuda:{}", facts.gpus.front());
  std::optional<AverageView> view;
  Status outcome = ok_status();
  if (inputs.empty()) {
    outcome = nothing_finished(swarm, facts);
  } else {
    auto merged = average_and_measure(inputs, facts.run_folder / "average.ckpt", config, device);
    if (merged.ok()) {
      view = std::move(merged).value();
    } else {
      outcome = std::move(merged).error().with_context("averaging the peers");
    }
  }
  // Whatever went wrong, what the peers did is worth seeing.
  out << '\n' << summary_table(swarm.peers(), view);
  if (config.outer.rule.method != optim::OuterMethod::kLocal) out << lonely_peers(swarm.peers());
  out << std::flush;
  if (!outcome.ok() || !options.sample) return outcome;
  out << "\nA sample of the average:\n";
  outcome = generate({.checkpoint = view->checkpoint,
                      .prompt = *options.sample,
                      .runner = {.device = device},
                      .tokens = kSampleTokens},
                     [&out](std::string_view text) { out << printable(text) << std::flush; });
  out << std::endl;
  return outcome;
}

}  // namespace

Result<std::vector<PeerLaunch>> plan_launches(const SwarmOptions& options,
                                              const SwarmFacts& facts) {
  if (Status checked = check_options(options); !checked.ok()) return std::move(checked).error();
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
    set("run.peer_name", "\"" + peer_name(peer) + "\"");
    set("gossip.listen", fmt::format("\"127.0.0.1:{}\"", facts.ports[peer]));
    set("gossip.advertise", "\"\"");  // the file may name this machine as others reach it
    set("gossip.seeds", seeds_of(peer, facts));
    set("trust.key", in_quotes(key_file(facts, peer).string()));
    set("trust.allow", in_quotes(allow_file(facts).string()));
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
    if (!facts.status_listen.empty()) {  // behind an override, which names the first
      set("status.listen", status_listen_of(peer, facts.status_listen));
    }
    launches.push_back(
        {.name = peer_name(peer),
         .command = {.arguments = std::move(arguments),
                     .log = facts.run_folder / peer_name(peer) / "log.txt",
                     .processors = shares.empty() ? std::vector<int>() : shares[peer]},
         .restart_arguments = restart_arguments(facts)});
  }
  return launches;
}

Result<PreparedSwarm> prepare_swarm(const SwarmOptions& options) {
  if (Status sound = check_options(options); !sound.ok()) return std::move(sound).error();
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
  facts.status_listen = known.status.listen;
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

  out << fmt::format("{} in {}\n", counted(options.peers, "peer"), facts.run_folder.string());
  out << describe_gpus(facts.gpus.size(), options.peers, !known.micro_batch);
  if (!known.status.listen.empty()) out << status_pages_line(known.status.listen);
  out << std::flush;
  ProgressDisplay display(out, options.columns);
  SwarmSupervisor swarm(std::move(prepared.value().launches),
                        {.restart = options.restart,
                         .refresh_ms = options.columns > 0 ? kTerminalRefreshMs : kPlainRefreshMs},
                        display);
  Status ran = swarm.run();
  if (!ran.ok()) return ran;
  Status finished = finish(options, known, facts, swarm, out);
  if (!finished.ok()) return finished;
  std::size_t failures = 0;
  for (std::size_t peer = 0; peer < swarm.peers().size(); ++peer) failures += swarm.failed(peer);
  if (failures == 0) return ok_status();
  return Error(ErrorCode::kUnavailable,
               fmt::format("{} of {} peers failed", failures, options.peers));
}

}  // namespace starling::peer
