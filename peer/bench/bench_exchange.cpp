#include "peer/bench/bench_exchange.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/rng.h"
#include "model/param_layout.h"
#include "peer/files/token_shard.h"
#include "peer/swarm/swarm_launcher.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kPeers = 2;
constexpr std::uint64_t kShardTokens = std::uint64_t{1} << 20;

Result<fs::path> make_folder() {
  std::error_code failure;
  std::string name = (fs::temp_directory_path(failure) / "starling-bench-XXXXXX").string();
  if (failure || ::mkdtemp(name.data()) == nullptr) {
    return Error(ErrorCode::kIo, "no temporary folder; TMPDIR names where to make one");
  }
  return fs::path(name);
}

Status write_random_shard(const fs::path& path, std::int64_t vocabulary) {
  ShardHeader header;
  header.token_bytes = vocabulary > (1 << 16) ? 4 : 2;
  header.vocabulary = static_cast<std::uint32_t>(vocabulary);
  header.tokenizer = "random";
  auto writer = ShardWriter::create(path, header);
  if (!writer.ok()) return std::move(writer).error();
  Rng rng(1);
  std::vector<std::int32_t> tokens(kShardTokens);
  for (std::int32_t& token : tokens) {
    token = static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(vocabulary)));
  }
  ShardWriter shard = std::move(writer).value();
  if (Status appended = shard.append(tokens); !appended.ok()) return appended;
  return shard.finish();
}

double children_cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Ours first: what the user sets wins.
std::vector<std::string> overrides_of(const ExchangeBenchOptions& options, const fs::path& folder,
                                      std::uint64_t tokens) {
  std::vector<std::string> overrides{"run.folder=" + (folder / "runs").string(),
                                     fmt::format("run.tokens={}", tokens),
                                     "data.train=[\"" + (folder / "random.bin").string() + "\"]",
                                     "data.validation=[]",
                                     "device.name=cpu",
                                     fmt::format("device.threads={}", options.threads),
                                     "outer.fragments=4",
                                     "outer.steps_per_round=4",
                                     "gossip.closing_seconds=0",
                                     "join.state=none",
                                     "checkpoint.every_steps=0",
                                     "checkpoint.resume=never",
                                     "metrics.validate_every_steps=0",
                                     "metrics.tensorboard=false",
                                     "status.listen=\"\""};
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  return overrides;
}

// Counters from the first word of a peer to its last one; it may have begun without a partner.
void add_peer(const ChildView& view, ExchangeRun& run) {
  const PeerStatus &first = *view.first, &latest = *view.latest;
  run.tokens_per_second += mean_tokens_per_second(view) / kPeers;
  run.bytes += static_cast<double>(latest.bytes_out);
  const double seconds = latest.train_seconds - first.train_seconds;
  if (seconds > 0) {
    run.bytes_per_second += static_cast<double>(latest.bytes_out - first.bytes_out) / seconds;
  }
  if (latest.train_seconds > 0) {
    run.held_share += latest.held_seconds / latest.train_seconds / kPeers;
  }
  run.exchanges += latest.exchanges;
}

Result<ExchangeRun> run_pair(SwarmOptions options, const char* method, std::uint64_t tokens) {
  options.overrides.push_back(std::string("outer.method=") + method);
  options.overrides.push_back(std::string("run.name=") + method);
  auto prepared = prepare_swarm(options);
  if (!prepared.ok()) return std::move(prepared).error();
  std::ostringstream notes;
  ProgressDisplay display(notes, 0);
  const double before = children_cpu_seconds();
  SwarmSupervisor swarm(std::move(prepared.value().launches), {}, display);
  if (Status ran = swarm.run(); !ran.ok()) return std::move(ran).error();
  ExchangeRun run;
  run.cpu_seconds = children_cpu_seconds() - before;
  for (std::size_t peer = 0; peer < swarm.peers().size(); ++peer) {
    const ChildView& view = swarm.peers()[peer];
    if (swarm.failed(peer) || !view.latest) {
      return Error(ErrorCode::kUnavailable, "a peer failed:\n" + notes.str());
    }
    if (view.latest->tokens < tokens) return Error(ErrorCode::kCancelled, "stopped");
    add_peer(view, run);
  }
  return run;
}

}  // namespace

Spread ExchangeBench::of(const std::vector<ExchangeRun>& runs, double ExchangeRun::*field) const {
  std::vector<double> values;
  for (const ExchangeRun& run : runs) values.push_back(run.*field);
  return spread_of(std::move(values));
}

Spread ExchangeBench::cpu_seconds_per_gigabyte() const {
  std::vector<double> values;
  for (std::size_t round = 0; round < exchanging.size(); ++round) {
    const ExchangeRun& run = exchanging[round];
    values.push_back((run.cpu_seconds - alone[round].cpu_seconds) / (run.bytes / 1e9));
  }
  return spread_of(std::move(values));
}

Spread ExchangeBench::speed_ratio() const {
  std::vector<double> values;
  for (std::size_t round = 0; round < exchanging.size(); ++round) {
    values.push_back(exchanging[round].tokens_per_second / alone[round].tokens_per_second);
  }
  return spread_of(std::move(values));
}

Result<ExchangeBench> bench_exchange(const ExchangeBenchOptions& options) {
  auto made = make_folder();
  if (!made.ok()) return std::move(made).error();
  const TemporaryFolder folder(std::move(made).value());
  const std::string text = bench_shape_text(options.shape);
  auto config = parse_config(text, "--shape", options.overrides);
  if (!config.ok()) return std::move(config).error();
  const PeerConfig& known = config.value();
  auto layout = model::ParamLayout::plan(known.model, 1);
  if (!layout.ok()) return std::move(layout).error();
  if (Status written = replace_file(folder.path() / "peer.toml", text); !written.ok()) {
    return std::move(written).error();
  }
  Status shard = write_random_shard(folder.path() / "random.bin", known.model.vocabulary);
  if (!shard.ok()) return std::move(shard).error();
  const std::uint64_t tokens =
      options.steps * static_cast<std::uint64_t>(known.batch.sequences * known.batch.tokens);

  ExchangeBench bench;
  bench.shape = options.shape;
  bench.threads = static_cast<int>(options.threads);
  bench.parameters = layout.value().elements();
  bench.steps = options.steps;
  const SwarmOptions swarm{.program = options.program,
                           .config = folder.path() / "peer.toml",
                           .peers = kPeers,
                           .overrides = overrides_of(options, folder.path(), tokens),
                           .slow = {},
                           .sample = {}};
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    auto alone = run_pair(swarm, "local", tokens);
    if (!alone.ok()) return std::move(alone).error();
    auto exchanging = run_pair(swarm, "pair-gossip", tokens);
    if (!exchanging.ok()) return std::move(exchanging).error();
    if (exchanging.value().exchanges == 0) {
      return Error(ErrorCode::kUnavailable,
                   fmt::format("in {} steps nothing was exchanged: raise --steps", options.steps));
    }
    bench.alone.push_back(alone.value());
    bench.exchanging.push_back(exchanging.value());
  }
  return bench;
}

}  // namespace starling::peer
