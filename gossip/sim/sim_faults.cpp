// The part of SimNetwork that hurts: faults of connections and processes, and their end.
#include <algorithm>

#include "base/assert.h"
#include "gossip/sim/sim_network.h"

namespace starling::gossip {

void SimNetwork::schedule(Fault fault) {
  const SimFaults& faults = options_.faults;
  Duration mean{};
  switch (fault) {
    case Fault::kBreak: mean = faults.breaks_every; break;
    case Fault::kPartition: mean = faults.partitions_every; break;
    case Fault::kCrash: mean = faults.crashes_every; break;
    case Fault::kPause: mean = faults.pauses_every; break;
    case Fault::kLeave: mean = faults.leaves_every; break;
    case Fault::kRegion: mean = faults.regions_every; break;
    case Fault::kClog: mean = faults.clogs_every; break;
    case Fault::kRebind: mean = faults.rebinds_every; break;
  }
  if (mean == Duration{}) return;
  at(now_ + rng_.exponential(mean, std::chrono::milliseconds(1)), SimEventKind::kFault, 0,
     static_cast<std::uint32_t>(fault));
}

void SimNetwork::strike(Fault fault) {
  if (healed_) return;
  schedule(fault);
  if (fault == Fault::kBreak) {
    const auto from = static_cast<std::uint32_t>(rng_.below(options_.peers));
    const auto to = static_cast<std::uint32_t>(rng_.below(options_.peers));
    if (from != to) transport_.break_connection(now_, {from, to});
    ++stats_[SimCount::kBroken];
    return;
  }
  if (fault == Fault::kPartition) {
    transport_.partition();
    ++stats_[SimCount::kPartitions];
    at(now_ + rng_.exponential(options_.faults.partition_length, {}), SimEventKind::kMend, 0);
    return;
  }
  if (fault == Fault::kRegion) return crash_region();
  if (fault == Fault::kClog) return clog();
  if (fault == Fault::kRebind) {
    const auto peer = static_cast<std::uint32_t>(rng_.below(options_.peers));
    if (!transport_.behind_nat(peer)) return;
    transport_.rebind(now_, peer);
    ++stats_[SimCount::kRebinds];
    return;
  }
  const std::optional<std::uint32_t> victim = draw_victim();
  if (!victim.has_value()) return;
  if (fault == Fault::kCrash) crash(*victim);
  if (fault == Fault::kPause) pause(*victim, options_.faults.pause_length);
  if (fault == Fault::kLeave) leave(*victim);
}

std::optional<std::uint32_t> SimNetwork::draw_victim() {
  const auto peer = static_cast<std::uint32_t>(rng_.below(options_.peers));
  const Process& process = processes_[peer];
  if (!member(peer) || process.fate != Fate::kUp || process.leaving) return std::nullopt;
  return peer;
}

void SimNetwork::crash(std::uint32_t peer) {
  ++stats_[SimCount::kCrashes];
  transport_.drop_all(peer);
  // Somebody must stay to be joined and to mix with.
  const bool may_end = peer >= options_.seed_peers && live().size() > options_.peers / 2;
  if (may_end && rng_.chance(options_.faults.crash_for_good)) {
    ++stats_[SimCount::kCrashesForGood];
    stop(peer, Fate::kGone);
    audit_.on_gone(peer);
    return;
  }
  stop(peer, Fate::kDown);
  choose_checkpoint(peer);
  const Duration away = std::min(rng_.exponential(options_.faults.restart_after, {}),
                                 4 * options_.faults.restart_after);
  at(now_ + away, SimEventKind::kStart, peer);
}

// Power fails in a data center: every third peer, all at once.
void SimNetwork::crash_region() {
  constexpr std::uint32_t kRegions = 3;
  ++stats_[SimCount::kRegionCrashes];
  for (auto peer = static_cast<std::uint32_t>(rng_.below(kRegions)); peer < options_.peers;
       peer += kRegions) {
    const Process& process = processes_[peer];
    if (member(peer) && process.fate == Fate::kUp && !process.leaving) crash(peer);
  }
}

// Links of half of the peers stand still and come back one by one, in another order.
void SimNetwork::clog() {
  for (std::uint32_t peer = 0; peer < options_.peers; ++peer) {
    if (!rng_.chance(0.5)) continue;
    ++stats_[SimCount::kClogs];
    transport_.clog(peer, now_ + rng_.exponential(options_.faults.clog_length, {}));
  }
}

void SimNetwork::stop(std::uint32_t peer, Fate fate) {
  Process& process = processes_[peer];
  process.fate = fate;
  process.paused = false;
  process.core.reset();
  process.mixer.reset();
  // Messages that waited for it wait on, or are lost, like those under way.
  for (const SimEvent& event : process.deferred) {
    if (event.kind == SimEventKind::kDelivery) at(now_, event.kind, peer, event.detail);
  }
  process.deferred.clear();
}

void SimNetwork::choose_checkpoint(std::uint32_t peer) {
  std::vector<Checkpoint>& kept = processes_[peer].checkpoints;
  if (kept.size() > 1 && rng_.chance(0.3)) {
    // Newer ones were bad; they must not come back later.
    kept.resize(1 + rng_.below(kept.size() - 1), kept.front());
    ++stats_[kept.size() == 1 ? SimCount::kRestartsEmpty : SimCount::kRestartsOlderCut];
  } else {
    ++stats_[kept.size() == 1 ? SimCount::kRestartsEmpty : SimCount::kRestartsNewestCut];
  }
  audit_.on_restored(peer, kept.back().audit);
}

// SeededBug::kWritesToTheDead
void SimNetwork::write_to_the_dead(std::uint32_t peer) {
  for (const PeerRecord& record : processes_[peer].core->peers()) {
    if (record.health != Health::kDead || record.key.id.value > options_.peers) continue;
    const auto to = static_cast<std::uint32_t>(record.key.id.value - 1);
    note_said({peer, to}, Digest{});
    send_connected({peer, to}, Digest{}, nullptr);
  }
}

void SimNetwork::pause(std::uint32_t peer, Duration length) {
  Process& process = processes_[peer];
  if (process.paused) return;
  process.paused = true;
  process.paused_at = now_;
  ++stats_[SimCount::kPauses];
  at(now_ + rng_.exponential(length, {}), SimEventKind::kResume, peer);
}

// Its trainer takes the processor: the network's thread gets a moment now and then.
void SimNetwork::starve(std::uint32_t peer) {
  ++stats_[SimCount::kStarvations];
  at(now_ + rng_.exponential(std::chrono::milliseconds(300), {}), SimEventKind::kStarve, peer);
}

void SimNetwork::resume(std::uint32_t peer) {
  Process& process = processes_[peer];
  process.paused = false;
  graves_.on_paused(peer, now_ - process.paused_at);
  std::vector<SimEvent> deferred;
  deferred.swap(process.deferred);
  for (const SimEvent& event : deferred) at(now_, event.kind, event.peer, event.detail);
  if (process.starved && !healed_) starve(peer);
}

void SimNetwork::leave(std::uint32_t peer) {
  Process& process = processes_[peer];
  if (process.paused || peer < options_.seed_peers || live().size() <= options_.peers / 2) return;
  ++stats_[SimCount::kLeaves];
  process.leaving = true;
  process.core->on_close(local_now(process));
  drain(peer, nullptr);
  const double patience = 10 * rng_.unit();  // seconds; what is open after that is cut short
  at(now_ + from_seconds(patience), SimEventKind::kGone, peer);
}

void SimNetwork::end_process(std::uint32_t peer) {
  Process& process = processes_[peer];
  process.core->on_leave(local_now(process));
  drain(peer, nullptr);
  if (rng_.chance(0.5) && !healed_) {
    ++stats_[SimCount::kReturns];
    if (!process.fetching) take_checkpoint(peer);
    stop(peer, Fate::kDown);
    at(now_ + rng_.exponential(std::chrono::seconds(5), {}), SimEventKind::kStart, peer);
  } else {
    stop(peer, Fate::kGone);
    audit_.on_gone(peer);
  }
}

void SimNetwork::heal() {
  healed_ = true;
  transport_.calm();
  for (std::uint32_t peer = 0; peer < options_.peers; ++peer) {
    Process& process = processes_[peer];
    process.completed_since_heal = 0;
    if (process.hostile) remove_hostile(peer);
    if (process.fate == Fate::kDown || process.fate == Fate::kUnborn) start(peer);
    if (process.fate == Fate::kUp && process.paused) resume(peer);
    if (process.fate == Fate::kUp && process.leaving) end_process(peer);
    if (process.fate != Fate::kUp) continue;
    list_honest(peer);
    drain(peer, nullptr);
  }
}

// Its operator takes the hostile off the allow-list.
void SimNetwork::list_honest(std::uint32_t peer) {
  std::vector<PeerId> members;
  for (std::uint32_t other = 0; other < options_.peers; ++other) {
    if (!processes_[other].hostile) members.push_back(sim_peer_id(other));
  }
  processes_[peer].core->on_members(local_now(processes_[peer]), members);
}

void SimNetwork::remove_hostile(std::uint32_t peer) {
  const SimHostile& hostile = *processes_[peer].hostile;
  stats_[SimCount::kLies] += hostile.lies();
  stats_[SimCount::kWithheld] += hostile.withheld();
  stop(peer, Fate::kGone);
  ++processes_[peer].life;  // one that is down does not come back either
  audit_.on_gone(peer);
}

void SimNetwork::close_exchanges() {
  for (const std::uint32_t peer : live()) {
    processes_[peer].core->on_close(local_now(processes_[peer]));
    drain(peer, nullptr);
  }
}

}  // namespace starling::gossip
