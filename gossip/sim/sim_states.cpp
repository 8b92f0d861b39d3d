// The part of SimNetwork in which newcomers fetch the state of others, and in which these give it.
// Whatever a newcomer begins with must be, stripe by stripe, what one honest donor had at one
// moment; nobody honest is blamed; while it fetches it neither trains nor exchanges.
#include <set>

#include "base/assert.h"
#include "gossip/sim/sim_network.h"

namespace starling::gossip {
namespace {

constexpr Duration kDiskTime = std::chrono::milliseconds(5);  // mean, of one order
constexpr Duration kDurable = std::chrono::seconds(1);        // mean, of the first checkpoint
constexpr std::int64_t kForgery = 30'000'000;  // far out, and not out of the question

}  // namespace

void SimNetwork::begin_fetch(std::uint32_t peer) {
  Process& process = processes_[peer];
  const std::vector<std::uint64_t> held = process.keeper->held();
  if (process.keeper->pieces_stored() > 0) ++stats_[SimCount::kStatesResumed];
  process.core->on_state(local_now(process), FetchState{held});
}

// Training, and with it checkpoints; mixing, of what was ordered before. What was fetched is soon
// in a checkpoint.
void SimNetwork::begin_work(std::uint32_t peer, bool fetched) {
  Process& process = processes_[peer];
  const double phase = process.rng.unit();
  const Duration first_cut = fetched ? process.rng.exponential(kDurable, {})
                                     : from_seconds(to_seconds(options_.cut_every) * (0.5 + phase));
  at(now_ + from_seconds(to_seconds(process.period) * phase), SimEventKind::kTrainer, peer);
  at(now_ + first_cut, SimEventKind::kCut, peer);
  for (; process.orders_waiting > 0; --process.orders_waiting) {
    at(now_, SimEventKind::kMixer, peer);
  }
}

void SimNetwork::keep(std::uint32_t peer, const StateOrder& order, const SimPayload* payload) {
  Process& process = processes_[peer];
  process.keeper->submit(order, payload);
  process.keeper_free = std::max(process.keeper_free, now_) +
                        process.rng.exponential(kDiskTime, std::chrono::microseconds(1));
  at(process.keeper_free, SimEventKind::kKeeper, peer);
}

void SimNetwork::work_keeper(std::uint32_t peer) {
  Process& process = processes_[peer];
  SimKeeper::Faults faults;
  if (!healed_) {
    faults.no_room = rng_.chance(options_.faults.mixer_refusal);
    faults.disk_fails = rng_.chance(options_.faults.disk_failure);
  }
  const SimKeeper::Done done =
      process.keeper->execute_next([this, peer] { return newest_state(peer); }, faults);
  if (faults.disk_fails) ++stats_[SimCount::kDiskFailures];
  if (!done.input) return;
  process.core->on_state(local_now(process), *done.input);
  drain(peer, &done.payload);
}

std::optional<SimKeeper::Snapshot> SimNetwork::newest_state(std::uint32_t peer) {
  Process& process = processes_[peer];
  const Checkpoint& newest = process.checkpoints.back();
  if (newest.number == 0) return std::nullopt;
  SimKeeper::Snapshot state{newest.number, newest.number, newest.trained + newest.inherited,
                            newest.mixer.values};
  const bool forged = process.hostile && process.hostile->does(Misdeed::kLiesAboutStates);
  if (forged) {
    ++stats_[SimCount::kForgedOffered];
    for (StripeValues& stripe : state.values) stripe.fill(rng_.chance(0.5) ? kForgery : -kForgery);
  }
  given_[state.name] = {peer, forged, state.values};
  return state;
}

void SimNetwork::note_join(std::uint32_t peer, const JoinEvent& event) {
  if (event.step == JoinStep::kDonorLost) ++stats_[SimCount::kDonorsLost];
  if (event.step != JoinStep::kDonorWrong && event.step != JoinStep::kDonorImpossible) return;
  if (hostile(event.peer)) {
    ++stats_[SimCount::kDonorsWrong];
  } else if (!processes_[peer].hostile) {
    audit_.fail(now_, peer, "calls an honest donor wrong");
  }
}

void SimNetwork::note_join_ended(std::uint32_t peer, const JoinEnded& event) {
  Process& process = processes_[peer];
  if (!process.fetching) return audit_.fail(now_, peer, "ends a fetch twice");
  process.fetching = false;
  const bool fetched = event.outcome == JoinOutcome::kFetched;
  const bool wanted =
      event.outcome != JoinOutcome::kNotBehind && event.outcome != JoinOutcome::kAlone;
  if (fetched) adopt(peer, event);
  if (wanted && !fetched) ++stats_[SimCount::kFetchesInVain];
  begin_work(peer, fetched);
}

void SimNetwork::adopt(std::uint32_t peer, const JoinEnded& event) {
  Process& process = processes_[peer];
  std::vector<StripeValues> values;
  std::set<std::uint64_t> snapshots;
  bool forged = false;
  for (std::size_t stripe = 0; stripe < index_.size(); ++stripe) {
    const std::optional<SimKeeper::Stripe> fetched = process.keeper->fetched(stripe);
    if (!fetched) return audit_.fail(now_, peer, "begins with a stripe that it has not fetched");
    forged = check_fetched(peer, stripe, *fetched) || forged;
    values.push_back(fetched->values);
    snapshots.insert(fetched->snapshot);
  }
  ++stats_[SimCount::kStatesFetched];
  if (forged) ++stats_[SimCount::kForgedAdopted];
  if (snapshots.size() > 1) ++stats_[SimCount::kStatesOfSeveral];
  process.inherited = event.tokens;
  process.mixer->adopt(values);
  audit_.on_adopted(peer, values);
  process.checkpoints.erase(
      process.checkpoints.begin() + 1,
      process.checkpoints.end());  // the books know the way back to the birth only
}

// Of hostile donors, too, it is exactly what they offered. True: which was forged.
bool SimNetwork::check_fetched(std::uint32_t peer, std::size_t stripe,
                               const SimKeeper::Stripe& fetched) {
  if (processes_[peer].hostile) return false;
  const auto given = given_.find(fetched.snapshot);
  const bool known = given != given_.end();
  const bool by_donor =
      known && (fetched.from == PeerId{} || fetched.from == sim_peer_id(given->second.donor));
  if (!by_donor || fetched.values != given->second.values[stripe]) {
    audit_.fail(now_, peer, "begins with weights that no donor has offered");
    return false;
  }
  return given->second.forged;
}

}  // namespace starling::gossip
