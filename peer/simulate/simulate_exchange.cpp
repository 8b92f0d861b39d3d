#include "peer/simulate/simulate_exchange.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "gossip/wire/wire.h"

namespace starling::peer {

namespace {

constexpr std::uint64_t kStream = 3;
constexpr double kServerBytesPerSecond = 1e10 / 8;
constexpr std::size_t kServerRegion = 1;  // Virginia

using When = optim::ExchangePlan::When;

}  // namespace

SimulatedExchange::SimulatedExchange(SimulatedSwarm& swarm,
                                     std::unique_ptr<optim::OuterExchange> exchange)
    : swarm_(swarm),
      exchange_(std::move(exchange)),
      plan_(exchange_->plan(std::max(2U, swarm.config().simulate.peers))),
      server_(swarm.size()),
      rng_(Rng(swarm.config().run.seed).fork(kStream)),
      members_(swarm.size()) {}

SimulatedExchange::~SimulatedExchange() = default;

Status SimulatedExchange::start(std::uint32_t peer, const CheckpointImage* joined) {
  Member& member = members_[peer];
  const std::uint16_t fragments = swarm_.world().layout.fragments();
  if (plan_.audience == Audience::kServer && servers_.empty()) {
    // All begin with the same weights.
    const VirtualLine& line = swarm_.network().line(peer);
    VirtualLine far{.latency = line.latency,
                    .upload = kServerBytesPerSecond,
                    .download = kServerBytesPerSecond};
    if (line.region) far.region = kServerRegion;
    swarm_.network().add(far);
    const std::span<const float> weights = swarm_.peer(peer).weights();
    for (std::uint16_t f = 0; f < fragments; ++f) {
      const model::Range range = swarm_.world().layout.fragment(FragmentId{f});
      const auto part = weights.subspan(range.first, range.count);
      servers_.emplace_back(swarm_.config().outer.rule, swarm_.config().simulate.peers,
                            std::vector<float>(part.begin(), part.end()));
    }
  }
  // Those who wait for each other cannot take in the state of a moment that is over: the newcomer
  // goes on from where somebody is now. All that it is spared is that this takes its time, too.
  std::unique_ptr<CheckpointImage> image;
  const std::vector<std::uint32_t> there = swarm_.living();
  const auto donor = std::find_if(there.begin(), there.end(),
                                  [peer](std::uint32_t other) { return other != peer; });
  if (plan_.waits && swarm_.now() > Instant{} && donor != there.end()) {
    image = swarm_.state_for_newcomer(*donor);
    image->progress.steps_at_join = 0;  // moments and all: its rate is that of the others
    swarm_.peer(peer).trainer().restore(*image);
    joined = image.get();
    // Of a server everybody has an answer of its own.
    if (plan_.audience != Audience::kServer) member.waits = members_[*donor].waits;
    for (const Wait& wait : member.waits) ++meetings_.at(wait.key).takers;
    member.offered = members_[*donor].offered;
  }
  const std::span<const float> weights = swarm_.peer(peer).weights();
  member.slow.assign(weights.begin(), weights.end());
  member.momentum.assign(weights.size(), 0.0F);
  if (joined != nullptr) member.momentum = joined->momentum;
  member.mass.assign(fragments, 1.0);
  member.asks.assign(fragments, 0);
  if (plan_.audience == Audience::kServer &&
      swarm_.config().outer.local_steps == LocalSteps::kDynamic) {
    member.counted = steps(peer);
    member.clock.emplace(swarm_.config().outer.rounds, member.counted);
  }
  if (!member.waits.empty() && members_[*donor].blocked) {
    member.inherits_step = true;
    go_on(peer);
  } else {
    begin_step(peer);
  }
  return ok_status();
}

void SimulatedExchange::begin_step(std::uint32_t peer) {
  swarm_.peer(peer).learn_clock(static_cast<double>(swarm_.tokens_before_now()));
  swarm_.begin_step(peer);
}

void SimulatedExchange::computed(std::uint32_t peer) {
  if (plan_.when == When::kRound) swarm_.update(peer);
  go_on(peer);
}

// Between two steps: what is due is taken, or waited for; what is due to be offered is offered.
void SimulatedExchange::go_on(std::uint32_t peer) {
  Member& member = members_[peer];
  member.blocked = false;
  const bool gradient = plan_.when == When::kGradient;
  if (!take_due(peer)) {
    member.blocked = true;
    return;
  }
  if (finishing_) return;
  // Of gradients: before the step that they make.
  const std::uint64_t step = steps(peer) + (gradient ? 1 : 0);
  const auto fragment = due(peer, step);
  if (fragment && member.offered < step) {
    member.offered = step;
    if (plan_.audience == Audience::kPartner) {
      ask(peer, *fragment);
    } else {
      meet(peer, {step, *fragment});
      if (!take_due(peer)) {
        member.blocked = true;
        return;
      }
    }
  }
  if (gradient) swarm_.update(peer, !member.inherits_step);
  member.inherits_step = false;
  begin_step(peer);
}

std::optional<FragmentId> SimulatedExchange::due(std::uint32_t peer, std::uint64_t step) {
  Member& member = members_[peer];
  if (!member.clock) {
    return optim::fragment_due(swarm_.config().outer.rounds, StepIndex{step});
  }
  if (member.counted < step) {  // asked once more where the peer had to wait
    member.counted = step;
    member.due = member.clock->step(steps_per_round(peer));
  }
  return member.due;
}

std::uint32_t SimulatedExchange::steps_per_round(std::uint32_t peer) const {
  const auto speed = [this](std::uint32_t of) { return swarm_.peer(of).steps_per_second(); };
  double fastest = speed(peer);
  for (const std::uint32_t other : swarm_.living()) fastest = std::max(fastest, speed(other));
  return optim::dynamic_local_steps(swarm_.config().outer.rounds, speed(peer) / fastest);
}

// False: something is due and not there. At the end of the run all is due that is there.
bool SimulatedExchange::take_due(std::uint32_t peer) {
  Member& member = members_[peer];
  const std::uint64_t now = steps(peer) + (plan_.when == When::kGradient ? 1 : 0);
  const auto due = [this, now](const Wait& wait) {
    return finishing_ ? wait.result != nullptr : wait.due <= now;
  };
  if (std::any_of(member.waits.begin(), member.waits.end(),
                  [&](const Wait& wait) { return due(wait) && wait.result == nullptr; })) {
    return false;
  }
  for (const Wait& wait : member.waits) {
    if (!due(wait)) continue;
    const auto meeting = meetings_.find(wait.key);
    STARLING_ASSERT(meeting != meetings_.end());
    take(peer, wait.key.fragment, meeting->second.parcels.at(wait.parcel_of), *wait.result);
    if (--meeting->second.takers == 0 && meeting->second.closed) meetings_.erase(meeting);
  }
  std::erase_if(member.waits, due);
  return true;
}

void SimulatedExchange::stop(std::uint32_t peer, bool /*crashed*/) {
  Member& member = members_[peer];
  const std::vector<Wait> waits = std::exchange(member.waits, {});
  for (const Wait& wait : waits) --meetings_.at(wait.key).takers;
  // It is still among the living here: those who waited for it alone are told when it is not.
  swarm_.at(swarm_.now(), [this] {
    std::vector<Key> keys;
    for (const auto& [key, meeting] : meetings_) keys.push_back(key);
    for (const Key& key : keys) look(key);
  });
}

void SimulatedExchange::complete(std::uint32_t peer, std::unique_ptr<CheckpointImage>& image) {
  const Member& member = members_[peer];
  // Of methods without waiting the slow weights are not what a peer begins from.
  const bool anchored = plan_.audience == Audience::kEveryone ||
                        plan_.audience == Audience::kGroup || plan_.audience == Audience::kServer;
  image->slow = anchored && plan_.when == When::kRound ? member.slow : image->weights;
  image->momentum = member.momentum;
}

// Overlapped rounds whose results are there.
bool SimulatedExchange::finish() {
  finishing_ = true;
  if (plan_.when == When::kGradient) return false;
  bool took = false;
  for (const std::uint32_t peer : swarm_.living()) {
    const std::size_t waits = members_[peer].waits.size();
    if (waits > 0) go_on(peer);
    took = took || members_[peer].waits.size() < waits;
  }
  return took;
}

bool SimulatedExchange::own_model(std::span<float> whole) const {
  for (std::size_t f = 0; f < servers_.size(); ++f) {
    const model::Range range =
        swarm_.world().layout.fragment(FragmentId{static_cast<std::uint16_t>(f)});
    const std::span<const float> weights = servers_[f].weights();
    std::copy(weights.begin(), weights.end(),
              whole.begin() + static_cast<std::ptrdiff_t>(range.first));
  }
  return !servers_.empty();
}

ExchangeCounts SimulatedExchange::exchanges(std::uint32_t peer) const {
  return members_[peer].counts;
}

// --- parts ---

std::uint64_t SimulatedExchange::steps(std::uint32_t peer) const {
  return swarm_.peer(peer).trainer().progress().steps;
}

optim::ExchangeState SimulatedExchange::state(std::uint32_t peer, FragmentId fragment) {
  Member& member = members_[peer];
  const model::Range range = swarm_.world().layout.fragment(fragment);
  const auto part = [&range](std::span<float> all) {
    return all.subspan(range.first, range.count);
  };
  return {
      .slow = part(member.slow),
      .momentum = part(member.momentum),
      .fast = part(swarm_.weights(peer)),
      .gradient = plan_.when == When::kGradient ? part(swarm_.gradients(peer)) : std::span<float>(),
      .mass = member.mass[fragment.value]};
}

optim::Parcel SimulatedExchange::offer(std::uint32_t peer, FragmentId fragment) {
  optim::ExchangeState own = state(peer, fragment);
  optim::Parcel parcel;
  exchange_->offer(own, parcel);
  members_[peer].mass[fragment.value] = own.mass;
  return parcel;
}

void SimulatedExchange::take(std::uint32_t peer, FragmentId fragment, const optim::Parcel& own,
                             const optim::Parcel& combined) {
  optim::ExchangeState before = state(peer, fragment);
  exchange_->take(before, own, combined);
  members_[peer].mass[fragment.value] = before.mass;
  ++members_[peer].counts.completed;
}

std::size_t SimulatedExchange::bytes(FragmentId fragment) const {
  const std::size_t count = swarm_.world().layout.fragment(fragment).count;
  return gossip::kBulkHeadBytes + plan_.vectors * count * sizeof(float);
}

// As often as it takes.
void SimulatedExchange::carry(VirtualNetwork::Route route, std::size_t bytes,
                              std::function<void()> then) {
  const auto when =
      swarm_.network().send_surely(swarm_.now(), route, bytes, VirtualNetwork::Lane::kWeights);
  if (when) return arrives(*when, std::move(then));
  arrives(swarm_.now() + kTryAgain,
          [this, route, bytes, then = std::move(then)] { carry(route, bytes, then); });
}

void SimulatedExchange::arrives(Instant when, std::function<void()> then) {
  ++under_way_;
  swarm_.at(when, [this, then = std::move(then)] {
    --under_way_;
    then();
  });
}

}  // namespace starling::peer
