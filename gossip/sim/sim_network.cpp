#include "gossip/sim/sim_network.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace starling::gossip {
namespace {

constexpr std::uint32_t kDeadlinesMax = 1000;  // at one instant: the core spins
constexpr double kTokensPerSecond = 1000;      // of the fastest trainer
constexpr std::size_t kPayloadBytes = 1 << 20;

// By another clock, which is ahead by so much.
WeightsAge moved(WeightsAge age, Duration by) {
  if (age.written) *age.written += by;
  return age;
}

enum Stream : std::uint64_t {
  kHarness = 1,
  kTransport = 2,
  kHostile = 3,
  kRelays = 4,
  kWire = 5,
  kCommon = 6,
  kSurge = 7,
  kProcess = 1000
};

StripeValues draw_values(Rng& rng, std::int64_t spread) {
  StripeValues values{};
  if (spread == 0) return values;
  const auto width = static_cast<std::uint64_t>(spread) * 2 + 1;
  for (std::int64_t& value : values) value = static_cast<std::int64_t>(rng.below(width)) - spread;
  return values;
}

}  // namespace

SimNetwork::SimNetwork(const SimOptions& options)
    : options_(options),
      index_(options_.stripes),
      rng_(Rng(options_.seed).fork(kHarness)),
      wire_rng_(Rng(options_.seed).fork(kWire)),
      transport_(options_, Rng(options_.seed).fork(kTransport)),
      audit_(options_, index_),
      graves_(options_),
      processes_(options_.peers) {
  STARLING_ASSERT(options_.peers > options_.seed_peers);
  std::vector<StripeValues> common(index_.size());
  Rng common_rng = Rng(options_.seed).fork(kCommon);
  for (StripeValues& values : common) values = draw_values(common_rng, options_.common_spread);
  for (std::uint32_t peer = 0; peer < options_.peers; ++peer) {
    Process& process = processes_[peer];
    process.rng = Rng(options_.seed).fork(kProcess + peer);
    // Periods are spread evenly on a logarithmic scale.
    const double slower = std::pow(options_.speed_spread, process.rng.unit());
    process.clock = 1 + options_.faults.clock_drift * (2 * process.rng.unit() - 1);
    process.versions = draw_versions(process.rng.fork(kWire));
    process.starved = process.rng.chance(options_.faults.starved);
    process.period = from_seconds(to_seconds(options_.publish_every) * slower);
    std::vector<StripeValues> born = common;
    for (StripeValues& values : born) {
      add(values, 1, draw_values(process.rng, options_.initial_spread));
    }
    audit_.on_born(peer, born);
    process.checkpoints.push_back({{born, {}, {}}, audit_.cut(peer), {}});
    process.keeper.emplace(index_.size(), sections_taken(options_.config.state.moments),
                           options_.bug);
    Instant begins = now_ + Duration(static_cast<Duration::rep>(rng_.below(1'000'000'000)));
    if (options_.faults.late_joins && member(peer) && peer >= options_.peers * 3 / 4) {
      begins += from_seconds(to_seconds(options_.faulty_time) * (0.2 + 0.7 * rng_.unit()));
      ++stats_[SimCount::kLateJoins];
    }
    if (peer >= options_.peers - options_.surge) {
      const double part = process.rng.fork(kSurge).unit();
      begins = now_ + options_.surge_after + from_seconds(to_seconds(options_.surge_within) * part);
    }
    if (transport_.behind_nat(peer)) ++stats_[SimCount::kBehindNat];
    process.volunteers = process.rng.fork(kRelays).chance(options_.faults.volunteers);
    at(begins, SimEventKind::kStart, peer);
  }
  draw_hostile();
  for (const Fault fault : {Fault::kBreak, Fault::kPartition, Fault::kCrash, Fault::kPause,
                            Fault::kLeave, Fault::kRegion, Fault::kClog, Fault::kRebind}) {
    schedule(fault);
  }
}

SimNetwork::~SimNetwork() = default;

void SimNetwork::draw_hostile() {
  const double share = options_.faults.hostile * options_.peers;
  std::uint32_t seeds = options_.faults.hostile_seeds ? options_.seed_peers - 1 : 0;
  for (auto left = static_cast<std::uint32_t>(share); left > 0;) {
    const bool seed = seeds > 0;
    const auto peer = seed ? seeds-- : static_cast<std::uint32_t>(rng_.below(options_.peers));
    Process& process = processes_[peer];
    if ((!seed && peer < options_.seed_peers) || !member(peer) || process.hostile) continue;
    process.hostile = std::make_unique<SimHostile>(peer, options_, process.rng.fork(kHostile));
    audit_.on_hostile(peer);
    ++stats_[SimCount::kHostilePeers];
    --left;
  }
}

void SimNetwork::run_for(Duration duration) {
  const Instant end = now_ + duration;
  while (!queue_.empty() && queue_.next().at <= end) {
    const SimEvent event = queue_.pop();
    STARLING_ASSERT(event.at >= now_);
    now_ = event.at;
    handle(event);
  }
  now_ = end;
}

void SimNetwork::at(Instant when, SimEventKind kind, std::uint32_t peer, std::uint32_t detail) {
  SimEvent event;
  event.at = std::max(when, now_);
  event.kind = kind;
  event.peer = peer;
  event.life = processes_[peer].life;
  event.detail = detail;
  queue_.push(event);
}

void SimNetwork::handle(const SimEvent& event) {
  ++stats_[SimCount::kEvents];
  trace_ = mix64(trace_ ^ static_cast<std::uint64_t>(event.at.time_since_epoch().count()));
  trace_ =
      mix64(trace_ ^ (std::uint64_t{event.peer} << 40 ^ std::uint64_t{event.life} << 32 ^
                      std::uint64_t{event.detail} << 8 ^ static_cast<std::uint64_t>(event.kind)));
  switch (event.kind) {
    case SimEventKind::kDelivery: return deliver(event);
    case SimEventKind::kFault: return strike(static_cast<Fault>(event.detail));
    case SimEventKind::kMend: return healed_ ? void() : transport_.mend();
    default: break;
  }
  Process& process = processes_[event.peer];
  if (event.life != process.life) return;
  if (event.kind == SimEventKind::kStart) return start(event.peer);
  if (process.fate != Fate::kUp) return;
  if (event.kind == SimEventKind::kResume) return resume(event.peer);
  if (event.kind == SimEventKind::kStarve) {
    return healed_ ? void() : pause(event.peer, std::chrono::milliseconds(1500));
  }
  if (process.paused) {
    process.deferred.push_back(event);
    return;
  }
  handle_in_process(event);
}

void SimNetwork::handle_in_process(const SimEvent& event) {
  switch (event.kind) {
    case SimEventKind::kDeadline: on_deadline(event.peer, event.detail); break;
    case SimEventKind::kMixer: mix(event.peer); break;
    case SimEventKind::kKeeper: work_keeper(event.peer); break;
    case SimEventKind::kTrainer: train(event.peer); break;
    case SimEventKind::kCut: take_checkpoint(event.peer); break;
    case SimEventKind::kGone: end_process(event.peer); break;
    case SimEventKind::kReached: on_reached(event.peer); break;
    case SimEventKind::kLookAtReach: look_at_reach(event.peer); break;
    case SimEventKind::kDeed: do_deeds(event.peer); break;
    case SimEventKind::kSendFailed:
      processes_[event.peer].core->on_send_failed(local_now(processes_[event.peer]),
                                                  sim_peer_id(event.detail));
      drain(event.peer, nullptr);
      break;
    default: STARLING_ASSERT(false);
  }
}

bool SimNetwork::hostile(PeerId id) const {
  return id.value <= options_.peers && processes_[id.value - 1].hostile != nullptr;
}

bool SimNetwork::member(std::uint32_t peer) const {
  return !options_.faults.stranger || peer + 1 != options_.peers;
}

PeerAddress SimNetwork::address_of(std::uint32_t peer) const {
  PeerAddress address;
  STARLING_ASSERT(set_host(address, "simulated"));
  address.control_port = static_cast<std::uint16_t>(peer + 1);
  address.bulk_port = static_cast<std::uint16_t>(peer + 1);
  // Who knows that it is behind a NAT may not listen at all.
  if (transport_.behind_nat(peer) && peer % 2 == 0) address = {};
  address.key = stand_in_key(sim_peer_id(peer));
  return address;
}

void SimNetwork::start(std::uint32_t peer) {
  Process& process = processes_[peer];
  if (process.fate == Fate::kUp) return;
  const Checkpoint& newest = process.checkpoints.back();
  ++process.life;
  process.fate = Fate::kUp;
  process.paused = false;
  process.leaving = false;
  process.reached = options_.faults.nat <= 0;
  process.called_at = now_;
  process.tokens = 0;
  process.trained_before = newest.trained;
  process.inherited = newest.inherited;
  process.mixer_free = now_;
  process.keeper_free = now_;
  process.keeper->restart();
  process.orders_waiting = 0;
  process.armed.reset();
  process.paths.clear();
  process.forwards_for.clear();
  transport_.disconnect_all(peer);
  process.mixer.emplace(index_, newest.mixer, options_.bug);

  CoreIdentity identity;
  identity.self.key = {sim_peer_id(peer), process.life};
  identity.self.address = address_of(peer);
  identity.self.dialable = process.reached;
  process.seal = StandInSeal(sim_peer_id(peer));
  identity.seal = &process.seal;
  identity.run = {
      .run = kSimRun, .model = 2, .layout = member(peer) ? 3U : 4U, .versions = process.versions};
  identity.stripes = options_.stripes;
  identity.seed = process.rng.next();
  if (options_.faults.hostile > 0) identity.data = kSimPartSpace;
  audit_.on_started(peer, process.life);
  graves_.on_started(peer);
  GossipConfig config = options_.config;
  config.relay.volunteer = process.volunteers;
  const RestoredState restored{.ledger = newest.mixer.ledger,
                               .tokens = newest.tokens,
                               .passes = {},
                               .inherited = newest.inherited,
                               .age = moved(newest.age, local_now(process) - now_)};
  process.core.emplace(config, identity, restored, local_now(process));
  std::vector<PeerAddress> seeds;
  for (std::uint32_t seed = 0; seed < options_.seed_peers; ++seed) {
    if (seed != peer) seeds.push_back(address_of(seed));
  }
  if (healed_) list_honest(peer);
  process.core->on_join(local_now(process), seeds);
  process.fetching = options_.fetch_states && !seeds.empty();
  if (process.fetching) begin_fetch(peer);
  drain(peer, nullptr);
  if (process.starved && !healed_) starve(peer);
  if (!process.fetching) begin_work(peer, false);
  if (process.hostile) at(now_ + process.hostile->until_next_deed(), SimEventKind::kDeed, peer);
  at(now_ + kLookAtReachEvery, SimEventKind::kLookAtReach, peer);
}

Instant SimNetwork::local_now(const Process& process) const {
  const double ticks = static_cast<double>(now_.time_since_epoch().count()) * process.clock;
  return Instant(Duration(static_cast<Duration::rep>(ticks)));
}

// The first moment at which its clock shows `local` or more.
Instant SimNetwork::true_time(const Process& process, Instant local) const {
  const double ticks = static_cast<double>(local.time_since_epoch().count()) / process.clock;
  return Instant(Duration(static_cast<Duration::rep>(ticks) + 2));
}

void SimNetwork::train(std::uint32_t peer) {
  Process& process = processes_[peer];
  const FragmentId fragment{
      static_cast<std::uint16_t>(process.published++ % options_.stripes.size())};
  if (options_.local_spread != 0) {
    for (std::uint32_t stripe = 0; stripe < options_.stripes[fragment.value]; ++stripe) {
      const StripeValues change = draw_values(process.rng, options_.local_spread);
      process.mixer->train(index_.at(fragment, stripe), change);
      audit_.on_trained(peer, index_.at(fragment, stripe), change);
    }
  }
  const double rate =
      kTokensPerSecond * to_seconds(options_.publish_every) / to_seconds(process.period);
  process.tokens += static_cast<std::uint64_t>(rate * to_seconds(process.period));
  audit_.on_progress(peer, process.tokens);
  process.core->on_progress(local_now(process), process.tokens, static_cast<float>(rate));
  drain(peer, nullptr);
  const bool cold = process.published <= options_.stripes.size();
  // Peers want different radii, and some none, which nobody should among the hostile.
  const auto times = process.rng.below(kSimRadiiMax + 1);
  const bool some = options_.faults.hostile > 0;
  const auto radius =
      options_.clip_radius * static_cast<float>(some ? std::max<std::uint64_t>(times, 1) : times);
  process.core->on_published(local_now(process), fragment, {.cold = cold, .clip_radius = radius});
  drain(peer, nullptr);
  ++stats_[SimCount::kPublished];
  at(now_ + from_seconds(to_seconds(process.period) * (0.8 + 0.4 * process.rng.unit())),
     SimEventKind::kTrainer, peer);
}

void SimNetwork::mix(std::uint32_t peer) {
  Process& process = processes_[peer];
  const bool refuse =
      !healed_ && options_.faults.mixer_refusal > 0 && rng_.chance(options_.faults.mixer_refusal);
  const MixerResult result = process.mixer->execute_next(refuse);
  ++stats_[SimCount::kOrders];
  audit_.on_executed(now_, peer, result, process.mixer->values());
  if (!result.ok() && refuse) ++stats_[SimCount::kMixerRefusals];
  if (result.clipped) ++stats_[SimCount::kClipped];
  const StripeRef& ref = ref_of(result.order);
  const SimPayload* at_hand = result.ok() ? &result.payload : nullptr;
  switch (result.answer) {
    case Answer::kNone: return;
    case Answer::kEncoded:
      process.core->on_encoded(local_now(process), ref, result.verdict, kPayloadBytes);
      break;
    case Answer::kStaged:
      process.core->on_staged(local_now(process), ref, result.verdict, kPayloadBytes);
      break;
    case Answer::kApplied:
      if (result.ok()) ++stats_[SimCount::kStripesApplied];
      process.core->on_applied(local_now(process), ref, result.verdict);
      break;
    case Answer::kCompensated:
      ++stats_[SimCount::kStripesCompensated];
      process.core->on_compensated(local_now(process), ref);
      break;
  }
  drain(peer, at_hand);
}

void SimNetwork::on_reached(std::uint32_t peer) {
  Process& process = processes_[peer];
  if (process.reached) return;
  process.reached = true;
  process.core->on_reached(local_now(process), Reach::kAnywhere);
  drain(peer, nullptr);
}

void SimNetwork::take_checkpoint(std::uint32_t peer) {
  constexpr std::size_t kCheckpointsKept = 4;  // one of them the birth
  Process& process = processes_[peer];
  process.checkpoints.push_back(
      {process.mixer->cut(), audit_.cut(peer), process.core->token_map(), ++checkpoints_,
       process.trained_before + process.tokens, process.inherited,
       moved(process.core->age(local_now(process)), now_ - local_now(process))});
  process.keeper->clear();  // what was fetched is in it
  process.core->on_state(local_now(process), NewCheckpoint{});
  if (process.checkpoints.size() > kCheckpointsKept) {
    process.checkpoints.erase(process.checkpoints.begin() + 1);
  }
  if (options_.bug == SeededBug::kWritesToTheDead) write_to_the_dead(peer);
  at(now_ + options_.cut_every, SimEventKind::kCut, peer);
}

void SimNetwork::on_deadline(std::uint32_t peer, std::uint32_t ticket) {
  Process& process = processes_[peer];
  if (ticket != process.ticket || !process.armed.has_value()) return;
  process.armed.reset();
  process.deadlines_at_once = now_ == process.last_deadline ? process.deadlines_at_once + 1 : 0;
  process.last_deadline = now_;
  if (process.deadlines_at_once == kDeadlinesMax) audit_.fail(now_, peer, "the timer spins");
  STARLING_ASSERT(process.deadlines_at_once <= kDeadlinesMax);
  process.core->on_deadline(local_now(process));
  drain(peer, nullptr);
}

std::vector<std::uint32_t> SimNetwork::live() const {
  std::vector<std::uint32_t> peers;
  for (std::uint32_t peer = 0; peer < options_.peers; ++peer) {
    if (member(peer) && processes_[peer].fate == Fate::kUp) peers.push_back(peer);
  }
  return peers;
}

const Core& SimNetwork::core(std::uint32_t peer) const {
  STARLING_ASSERT(processes_[peer].core.has_value());
  return *processes_[peer].core;
}

}  // namespace starling::gossip
