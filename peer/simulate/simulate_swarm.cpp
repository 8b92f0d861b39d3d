#include "peer/simulate/simulate_swarm.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "model/init.h"
#include "peer/io/human_text.h"
#include "peer/machine/free_memory.h"
#include "peer/roles/memory_plan.h"

namespace starling::peer {

namespace {

constexpr std::uint64_t kNetworkStream = 1, kSwarmStream = 2, kHeldStream = 3;

// Of a whole state, what a newcomer takes: roles/joining.h, states/partial_state.h.
void keep_taken(bool moments, CheckpointImage& state) {
  std::fill(state.first_moment.begin(), state.first_moment.end(), 0.0F);
  std::fill(state.momentum.begin(), state.momentum.end(), 0.0F);
  if (moments) return;
  std::fill(state.second_moment.begin(), state.second_moment.end(), 0.0F);
  state.progress.steps = state.progress.steps_at_join = 0;
}

// What all peers hold for certain: weights, gradients and two moments, and where they exchange what
// they had at the last exchange.
Status judge_memory(const VirtualWorld& world) {
  const bool alone = world.config.outer.rule.method == optim::OuterMethod::kLocal;
  const std::size_t vectors = alone ? 4 : 5;
  const std::size_t peers = world.config.simulate.peers;
  const std::size_t needed = vectors * sizeof(float) * world.layout.elements() * peers;
  const auto available = memory_available();
  if (!available || needed <= *available) return ok_status();
  return Error(
      ErrorCode::kExhausted,
      fmt::format("{} virtual peers of {} parameters need more than {} of memory, and {} "
                  "are free; lower simulate.peers, or take a smaller [model]",
                  peers, world.layout.elements(), human_bytes(needed), human_bytes(*available)));
}

}  // namespace

SimulatedSwarm::SimulatedSwarm(const VirtualWorld& world, const SimulatePlan& plan, int threads)
    : world_(world),
      plan_(plan),
      team_(threads),
      network_(mix64(world.config.run.seed ^ kNetworkStream)),
      rng_(Rng(world.config.run.seed).fork(kSwarmStream)),
      rows_(plan.peers_ever),
      mean_(world.layout.elements()) {
  if (plan.hostile == 0 || world.config.simulate.misdeed != SimulatedMisdeed::kHold) return;
  held_.resize(world.layout.elements());
  model::initialise(world.layout, mix64(world.config.run.seed ^ kHeldStream), held_);
}

SimulatedSwarm::~SimulatedSwarm() = default;

Result<std::unique_ptr<SimulatedSwarm>> SimulatedSwarm::create(const VirtualWorld& world,
                                                               const SimulatePlan& plan,
                                                               int threads) {
  if (Status fits = judge_memory(world); !fits.ok()) return std::move(fits).error();
  std::unique_ptr<SimulatedSwarm> swarm(new SimulatedSwarm(world, plan, threads));
  if (Status made = swarm->make_benches(); !made.ok()) return std::move(made).error();
  auto method = make_simulated_method(*swarm);
  if (!method.ok()) return std::move(method).error();
  swarm->method_ = std::move(method).value();
  for (const VirtualRoom& room : plan.rooms) swarm->network_.add_room(room);
  for (std::uint32_t peer = 0; peer < plan.peers_ever; ++peer) {
    swarm->network_.add(plan.line(peer));
  }
  // All at once, before any of them says a word.
  for (std::uint32_t peer = 0; peer < world.config.simulate.peers; ++peer) {
    if (Status born = swarm->bear(peer); !born.ok()) return std::move(born).error();
    swarm->rows_[peer].fate = Fate::kUp;
  }
  return swarm;
}

Status SimulatedSwarm::make_benches() {
  const PeerConfig& config = world_.config;
  const auto tokens = static_cast<std::size_t>(config.batch.sequences * config.batch.tokens);
  for (int thread = 0; thread < team_.size(); ++thread) {
    auto bench = std::make_unique<Bench>();
    bench->layers = model::make_cpu_layer_ops(bench->team);
    auto own = model::ParamLayout::plan(trained_model(config), world_.layout.fragments());
    if (!own.ok()) return std::move(own).error().with_context("model");
    auto llama = model::Llama::create(trained_model(config), own.value(),
                                      pass_of(config, config.batch.sequences, {}), bench->device,
                                      *bench->layers);
    if (!llama.ok()) return std::move(llama).error().with_context("model");
    bench->llama.emplace(std::move(llama).value());
    bench->inputs.resize(tokens);
    bench->targets.resize(tokens);
    benches_.push_back(std::move(bench));
  }
  if (config.data.validation.empty()) {
    return Error(ErrorCode::kInvalidConfig,
                 "data.validation names no token shards: a simulation is measured on them");
  }
  auto held_out = Dataset::open(config.data.validation, {.vocabulary = config.model.vocabulary,
                                                         .tokens = config.batch.tokens});
  if (!held_out.ok()) return std::move(held_out).error().with_context("data.validation");
  held_out_.emplace(std::move(held_out).value());
  validation_.emplace(*held_out_, config.batch.sequences, config.metrics.validation_batches);
  return ok_status();
}

Status SimulatedSwarm::bear(std::uint32_t peer) {
  const SimulateSettings& settings = world_.config.simulate;
  auto made = VirtualPeer::create(world_, peer,
                                  {.step = from_seconds(settings.step_seconds),
                                   .speed = plan_.speed(peer),
                                   .jitter = settings.jitter,
                                   .change_factor = settings.change_factor,
                                   .change_every = from_seconds(settings.change_seconds)},
                                  snapshot_slots(world_.config, world_.stripes));
  if (!made.ok()) return std::move(made).error();
  rows_[peer].peer = std::move(made).value();
  rows_[peer].born = now();
  return ok_status();
}

Status SimulatedSwarm::run(const std::function<void(const SimulatedMoment&)>& listener) {
  listener_ = listener;
  joined_ = world_.config.simulate.peers;
  for (std::uint32_t peer = 0; peer < joined_; ++peer) {
    if (Status started = method_->start(peer, nullptr); !started.ok()) return started;
  }
  for (const Happening& happening : plan_.schedule) {
    at(happening.at, [this, &happening] { happen(happening); });
  }
  evaluate_regularly();
  while (!failure_ && !stalled_ && !diverged_ && tokens_ < world_.config.run.total_tokens &&
         time_.advance(plan_.end)) {
  }
  const bool moved = !failure_ && tokens_ >= world_.config.run.total_tokens && finish();
  if (failure_) return std::move(*failure_);
  const bool told = !moved && told_at_ == now() && told_tokens_ == tokens_;
  if (!told) tell();
  return ok_status();
}

// Whether anything came of it.
bool SimulatedSwarm::finish() {
  finishing_ = true;
  for (Row& row : rows_) {
    if (row.step > Duration{}) row.trained += now() - row.step_began;
    row.step = Duration{};
    row.computes = false;
  }
  pending_.clear();
  bool moved = method_->finish();
  while (!failure_ && !method_->settled() && !time_.idle() && time_.advance(plan_.end)) {
    moved = true;
  }
  return moved;
}

void SimulatedSwarm::happen(const Happening& happening) {
  if (finishing_) return;
  switch (happening.kind) {
    case Happening::Kind::kJoin: return join(joined_++);
    case Happening::Kind::kCrash: return end(happening.peer, true);
    case Happening::Kind::kLeave: return end(happening.peer, false);
    case Happening::Kind::kPartition:
      network_.partition(happening.peer);
      at(now() + happening.length, [this, number = ++partitions_] {
        if (number == partitions_) network_.mend();  // no other one has come since
      });
      return;
  }
}

// --- steps ---

void SimulatedSwarm::begin_step(std::uint32_t peer) {
  if (finishing_) return;
  Row& row = rows_[peer];
  STARLING_ASSERT(row.fate == Fate::kUp);
  STARLING_ASSERT(row.step == Duration{});
  row.step_began = now();
  row.step = row.peer->draw_step(now());
  row.computes = true;
  pending_.push_back(peer);
  at(now() + row.step, [this, peer] {
    Row& over = rows_[peer];
    if (over.fate != Fate::kUp || finishing_) return;
    if (over.computes) compute_pending();  // as late as it can be: so many at a time
    over.trained += std::exchange(over.step, Duration{});
    method_->computed(peer);
  });
}

void SimulatedSwarm::compute_pending() {
  const auto tasks = static_cast<std::int64_t>(pending_.size());
  team_.run(tasks, [this](std::int64_t task, int worker) {
    const std::uint32_t peer = pending_[static_cast<std::size_t>(task)];
    Row& row = rows_[peer];
    if (!row.computes) return;  // it is gone
    row.peer->compute(*benches_[static_cast<std::size_t>(worker)]->llama);
    row.computes = false;
    if (!does(SimulatedMisdeed::kClimb, peer)) return;
    for (float& gradient : gradients(peer)) gradient = -gradient;
  });
  pending_.clear();
}

void SimulatedSwarm::update(std::uint32_t peer, bool counts) {
  Trainer& trainer = rows_[peer].peer->trainer();
  const std::uint64_t before = trainer.progress().tokens;
  trainer.update(now());
  if (does(SimulatedMisdeed::kHold, peer)) std::ranges::copy(held_, weights(peer).begin());
  if (!counts) return;
  ++rows_[peer].steps;
  if (now() > last_update_) tokens_before_ = tokens_;
  last_update_ = now();
  tokens_ += trainer.progress().tokens - before;
}

std::span<float> SimulatedSwarm::weights(std::uint32_t peer) {
  if (rows_[peer].computes) compute_pending();
  const DeviceSpan<float> weights = rows_[peer].peer->trainer().weights();
  return {weights.data, weights.size};
}

std::span<float> SimulatedSwarm::gradients(std::uint32_t peer) {
  const DeviceSpan<float> gradients = rows_[peer].peer->trainer().gradients();
  return {gradients.data, gradients.size};
}

// --- coming and going ---

void SimulatedSwarm::join(std::uint32_t peer) {
  if (Status born = bear(peer); !born.ok()) return note(std::move(born));
  rows_[peer].fate = Fate::kFetching;
  const std::vector<std::uint32_t> donors = living_honest();  // as its checks would see to
  const bool fetches = world_.config.join.state != JoinState::kNone &&
                       world_.config.outer.rule.method != optim::OuterMethod::kLocal;
  if (!fetches || donors.empty()) return note(start(peer, nullptr));
  const std::uint32_t donor = donors[rng_.below(donors.size())];
  rows_[peer].fetched = state_for_newcomer(donor);
  const bool moments = world_.config.join.state == JoinState::kWeightsAndMoments;
  keep_taken(moments, *rows_[peer].fetched);
  const std::size_t bytes =
      world_.layout.elements() * sizeof(float) * gossip::sections_count(moments);
  const auto arrives =
      network_.send_surely(now(), {donor, peer}, bytes, VirtualNetwork::Lane::kWeights);
  if (!arrives) return note(start(peer, nullptr));  // nobody to be heard
  at(*arrives, [this, peer] {
    const auto image = std::move(rows_[peer].fetched);
    if (rows_[peer].fate == Fate::kFetching && !finishing_) note(start(peer, image.get()));
  });
}

// As it would get it: roles/joining.h, states/partial_state.h.
std::unique_ptr<CheckpointImage> SimulatedSwarm::state_for_newcomer(std::uint32_t donor) {
  auto image = std::make_unique<CheckpointImage>(world_.layout.elements(), true);
  rows_[donor].peer->trainer().copy_into(*image);
  method_->complete(donor, image);
  image->weights = image->slow;
  const std::uint64_t steps = image->progress.steps;
  image->progress = {.steps = steps, .steps_at_join = steps, .inherited = tokens_};
  image->ledger.clear();
  image->unsettled.clear();
  image->scales.clear();
  return image;
}

Status SimulatedSwarm::start(std::uint32_t peer, const CheckpointImage* joined) {
  Row& row = rows_[peer];
  row.fate = Fate::kUp;
  if (joined != nullptr) row.peer->trainer().restore(*joined);
  return method_->start(peer, joined);
}

void SimulatedSwarm::end(std::uint32_t peer, bool crashed) {
  Row& row = rows_[peer];
  if (row.fate != Fate::kUp && row.fate != Fate::kFetching) {
    return log_warning("simulate.schedule: peer {} is not there at {:.1f} s, so it cannot go", peer,
                       to_seconds(now() - Instant{}));
  }
  const bool was_up = row.fate == Fate::kUp;
  if (was_up) method_->stop(peer, crashed);
  row.fate = Fate::kGone;
  row.gone = now();
  row.computes = false;
  if (row.step > Duration{}) row.trained += now() - row.step_began;  // though nobody has it
  row.step = Duration{};
}

// Of the first.
void SimulatedSwarm::note(Status status) {
  if (!status.ok() && !failure_) failure_ = std::move(status).error();
}

bool SimulatedSwarm::does(SimulatedMisdeed misdeed, std::uint32_t peer) const {
  return plan_.is_hostile(peer) && misdeed == world_.config.simulate.misdeed;
}

std::vector<std::uint32_t> SimulatedSwarm::living_honest() const {
  std::vector<std::uint32_t> peers = living();
  std::erase_if(peers, [this](std::uint32_t peer) { return plan_.is_hostile(peer); });
  return peers;
}

std::vector<std::uint32_t> SimulatedSwarm::living() const {
  std::vector<std::uint32_t> peers;
  for (std::uint32_t peer = 0; peer < size(); ++peer) {
    if (lives(peer)) peers.push_back(peer);
  }
  return peers;
}

}  // namespace starling::peer
