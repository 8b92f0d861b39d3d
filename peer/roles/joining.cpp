#include "peer/roles/joining.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/log.h"
#include "gossip/wire/wire.h"
#include "peer/io/clock.h"
#include "peer/roles/pools.h"
#include "peer/roles/run_start.h"

namespace starling::peer {

namespace {

constexpr auto kIdle = std::chrono::milliseconds(10);

}  // namespace

Result<std::unique_ptr<Joining>> Joining::open(const PeerConfig& config,
                                               const std::filesystem::path& folder,
                                               const StripeTable& stripes,
                                               const CheckpointDigests& digests, Device& device,
                                               Disk& disk) {
  const bool moments = config.join.state == JoinState::kWeightsAndMoments;
  std::unique_ptr<Joining> joining(new Joining(moments, folder));
  const StatePlan plan(stripes);
  const auto [slots, bytes] = piece_slots(config.join, plan);
  auto memory = pool_memory(device, slots, bytes, "join.serve_max");
  if (!memory.ok()) return std::move(memory).error();
  joining->pieces_.emplace(std::move(memory).value(), slots);
  joining->desk_ = std::make_unique<StateDesk>(
      StateDeskConfig{.digests = digests, .head_bytes = gossip::kBulkHeadBytes}, plan, disk,
      *joining->pieces_);
  joining->fetches_ = config.join.state != JoinState::kNone && !config.gossip.seeds.empty();
  if (!joining->fetches_) {
    joining->contained_ = true;  // what an earlier start fetched is not wanted
    return joining;
  }
  auto partial = PartialState::open(folder, plan, digests, gossip::sections_taken(moments));
  if (!partial.ok() && partial.error().code() == ErrorCode::kExhausted) {
    log_warning("{}: nothing can be fetched", partial.error().message());
    joining->fetches_ = false;
    return joining;
  }
  if (!partial.ok()) return std::move(partial).error();
  const auto held = partial.value().held();
  const auto here = static_cast<std::ptrdiff_t>(held.size()) -
                    std::count(held.begin(), held.end(), std::uint64_t{0});
  if (here > 0) {
    log_info("{} of {} stripes of an earlier download are here", here, held.size());
  }
  joining->desk_->keep(std::move(partial).value());
  return joining;
}

std::optional<gossip::FetchState> Joining::fetch() const {
  if (!fetches_) return std::nullopt;
  return gossip::FetchState{desk_->partial().held()};
}

Start Joining::wait(const Network& network, const Ending& ending, CheckpointImage& image) {
  if (!fetches_) return Start::kAsItIs;
  while (!network.join_ended()) {
    if (ending.stop.raised()) return Start::kStopped;
    std::this_thread::sleep_for(kIdle);
  }
  const gossip::JoinEnded& result = network.join_result();
  contained_ = result.outcome == gossip::JoinOutcome::kNotBehind;
  if (result.outcome != gossip::JoinOutcome::kFetched) return Start::kAsItIs;
  Status loaded = desk_->partial().load(image);
  if (!loaded
           .ok()) {  // the roles have their own copies: the image is written anew before it is used
    log_warning("what was fetched cannot be used: {}", loaded.error().message());
    return Start::kAsItIs;
  }
  TrainerProgress& progress = image.progress;
  // With the donors' moments their number of steps belongs to AdamW; the rate rises anew.
  if (moments_) progress.steps = std::max(progress.steps, result.step);
  progress.steps_at_join = progress.steps;
  progress.inherited = result.tokens;
  // The first checkpoint is written before the network role has seen an image.
  progress.clock = std::max(progress.clock, network.join_clock());
  image.tokens = network.join_tokens();
  image.age = to_date({.written = now()});
  // What was settled or not belongs to weights that are gone.
  image.ledger.clear();
  image.unsettled.clear();
  image.scales.clear();
  contained_ = true;
  return Start::kFetched;
}

void Joining::note_written(bool written) const {
  if (!written) return desk_->note_failure();
  if (contained_) PartialState::remove(folder_);
}

}  // namespace starling::peer
