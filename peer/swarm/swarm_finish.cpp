#include "peer/swarm/swarm_finish.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "peer/io/human_text.h"
#include "peer/models/model_commands.h"

namespace starling::peer {

namespace {

constexpr std::int64_t kSampleTokens = 200;

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

// The newest average under the name it has always, and the one before it under another. `view`: the
// names. Until there is a new one, nothing is moved.
Status average_into(const std::filesystem::path& folder,
                    const std::vector<std::filesystem::path>& inputs, AverageView& view) {
  const std::filesystem::path unfinished = folder / "average.ckpt.new";
  const std::filesystem::path newest = folder / "average.ckpt";
  auto merged = average({.out = unfinished, .inputs = inputs});
  if (!merged.ok()) return std::move(merged).error();
  std::error_code failure;
  if (std::filesystem::exists(newest, failure)) {
    view.kept = "average.last.ckpt";
    std::filesystem::rename(newest, folder / view.kept, failure);
  }
  if (!failure) std::filesystem::rename(unfinished, newest, failure);
  if (failure) {
    return Error(ErrorCode::kIo,
                 fmt::format("{} is the average, and cannot be named {}: {}", unfinished.string(),
                             newest.string(), failure.message()));
  }
  view.checkpoint = newest.string();
  view.tokens = merged.value().tokens;
  view.peers = inputs.size();
  return ok_status();
}

Result<AverageView> average_and_measure(const std::vector<std::filesystem::path>& inputs,
                                        const std::filesystem::path& folder,
                                        const PeerConfig& config, const std::string& device) {
  AverageView view;
  if (Status done = average_into(folder, inputs, view); !done.ok()) return std::move(done).error();
  if (config.data.validation.empty()) return view;
  // The batches that the peers measure themselves on, so that the losses can be compared.
  auto measured = evaluate({.checkpoint = view.checkpoint,
                            .data = config.data.validation,
                            .runner = {.device = device},
                            .batches = config.metrics.validation_batches});
  if (!measured.ok()) return std::move(measured).error();
  view.validation_loss = measured.value().loss;
  return view;
}

}  // namespace

Status finish_swarm(const SwarmOptions& options, const PeerConfig& config, const SwarmFacts& facts,
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
    auto merged = average_and_measure(inputs, facts.run_folder, config, device);
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

}  // namespace starling::peer
