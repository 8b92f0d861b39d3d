// The part of SimNetwork that any driver has: feeding a core and carrying out its actions.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "gossip/sim/sim_network.h"

namespace starling::gossip {
namespace {

constexpr std::uint64_t kNobody = 0xFFFFFFFF;
constexpr Duration kReachKept = std::chrono::minutes(30);  // as CallersReach::kKept

bool is_exchange(const Message& message) {
  return std::holds_alternative<Offer>(message) || std::holds_alternative<Accept>(message);
}

}  // namespace

// Carries out one action of `peer`; `at_hand` is the payload of the input being handled, if any.
struct SimNetwork::Perform {
  SimNetwork& net;
  const std::uint32_t peer;
  const SimPayload* at_hand;

  static std::uint32_t index(PeerId id) {
    const std::uint64_t index = id.value - 1;  // of one that somebody invented: out of range
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(index, kNobody));
  }
  static std::uint32_t index(const PeerAddress& address) { return index(id_of(address.key)); }

  void order(const MixerOrder& order) const { net.submit(peer, order, at_hand); }

  void operator()(const Greet& action) const {
    if (index(action.address) < net.options_.peers && action.path.relay != PeerId{}) {
      net.take_path(peer, index(action.address), action.path);
    }
    net.say({peer, index(action.address)}, Message(action.hello), nullptr);
  }
  void operator()(const Reply& action) const {
    net.note_said({peer, index(action.to)}, action.message);
    net.say({peer, index(action.to)}, action.message, nullptr);
  }
  void operator()(const Connect& action) const { net.connect(peer, action); }
  void operator()(const Disconnect& action) const {
    net.transport_.disconnect({peer, index(action.peer)});
    net.take_path(peer, index(action.peer), {});
  }
  void operator()(const Send& action) const {
    if (net.processes_[peer].fetching && is_exchange(action.message)) {
      net.audit_.fail(net.now_, peer, "exchanges weights that it is about to replace");
    }
    if (const auto* offer = std::get_if<Offer>(&action.message)) {
      net.audit_.on_exchange_open(net.now_, peer, offer->exchange, Role::kInitiator);
    }
    if (const auto* accept = std::get_if<Accept>(&action.message)) {
      net.audit_.on_exchange_open(net.now_, peer, accept->exchange, Role::kResponder);
    }
    net.note_said({peer, index(action.to)}, action.message);
    net.send_connected({peer, index(action.to)}, action.message, nullptr);
  }
  void operator()(const SendPayload& action) const {
    if (at_hand == nullptr) {
      net.audit_.fail(net.now_, peer, "sends a payload where none is at hand");
      return;
    }
    net.note_said({peer, index(action.to)}, action.head);
    net.send_connected({peer, index(action.to)}, action.head, at_hand);
  }
  void operator()(const EncodeStripe& action) const { order(action); }
  void operator()(const StageDelta& action) const { order(action); }
  void operator()(const ReissueDelta& action) const { order(action); }
  void operator()(const ApplyDelta& action) const { order(action); }
  void operator()(const ApplyStaged& action) const { order(action); }
  void operator()(const DropStaged& action) const { order(action); }
  void operator()(const Compensate& action) const { order(action); }
  void operator()(const ForgetDelta& action) const { order(action); }
  void operator()(const ExchangeEnded& action) const { net.note_ended(peer, action); }
  void operator()(const PeerChanged& action) const { net.note_changed(peer, action); }
  void operator()(const StateOrder& action) const { net.keep(peer, action, at_hand); }
  void operator()(const JoinEvent& action) const { net.note_join(peer, action); }
  void operator()(const JoinEnded& action) const { net.note_join_ended(peer, action); }
  void operator()(const Rejected& action) const { net.note_rejected(peer, action); }
  void operator()(const Muted& action) const { net.note_muted(peer, action); }
  void operator()(const SwarmChanged&) const {}
  void operator()(const RelayFor& action) const { net.forward_for(peer, action); }
  void operator()(const RelayChanged&) const {}
  void operator()(const TokensClipped&) const {}
  void operator()(const FootingChanged&) const {}
  void operator()(const Refused& action) const {
    if (action.by_us) ++net.stats_[SimCount::kStrangersRefused];
  }
};

void SimNetwork::drain(std::uint32_t peer, const SimPayload* at_hand) {
  Process& process = processes_[peer];
  const Perform perform{*this, peer, at_hand};
  while (const std::optional<Action> action = process.core->poll_action()) {
    trace_ = mix64(trace_ ^ action->index());
    std::visit(perform, *action);
  }
  const double early = healed_ ? 0 : options_.faults.spurious_deadline;
  if (early > 0 && rng_.chance(early)) {
    ++stats_[SimCount::kEarlyDeadlines];
    process.core->on_deadline(local_now(process));
    const Perform empty_handed{*this, peer, nullptr};
    while (const std::optional<Action> action = process.core->poll_action()) {
      std::visit(empty_handed, *action);
    }
  }
  process.core->assert_invariants();
  if (process.hostile) return arm(peer);
  if (process.core->exchanges_open() >
      std::size_t{options_.config.initiated_max} + options_.config.accepted_max) {
    audit_.fail(now_, peer, "more exchanges under way than allowed");
  }
  arm(peer);
}

void SimNetwork::arm(std::uint32_t peer) {
  Process& process = processes_[peer];
  const std::optional<Instant> due = process.core->next_deadline();
  if (due == process.armed) return;
  process.armed = due;
  ++process.ticket;
  if (due.has_value()) at(true_time(process, *due), SimEventKind::kDeadline, peer, process.ticket);
}

void SimNetwork::submit(std::uint32_t peer, const MixerOrder& order, const SimPayload* payload) {
  Process& process = processes_[peer];
  process.mixer->submit(order, payload);
  if (process.fetching) {  // its mixer does not run yet
    ++process.orders_waiting;
    return;
  }
  process.mixer_free = std::max(process.mixer_free, now_) +
                       process.rng.exponential(options_.mixer_delay, std::chrono::microseconds(1));
  at(process.mixer_free, SimEventKind::kMixer, peer);
}

void SimNetwork::connect(std::uint32_t peer, const Connect& wish) {
  const std::uint32_t to = Perform::index(wish.peer);
  STARLING_ASSERT(to < options_.peers);  // nobody that has not introduced itself
  take_path(peer, to, wish.path);
  transport_.connect({peer, to});
  Process& other = processes_[to];
  if (other.reached || other.fate != Fate::kUp || transport_.behind_nat(to)) return;
  if (transport_.blocked({peer, to}) || transport_.blocked({to, peer})) return;
  at(now_ + 4 * options_.latency, SimEventKind::kReached, to);
}

// Whom nobody could call for half an hour does not know any more that it can be dialled.
void SimNetwork::look_at_reach(std::uint32_t peer) {
  Process& process = processes_[peer];
  at(now_ + kLookAtReachEvery, SimEventKind::kLookAtReach, peer);
  if (is_called(peer)) {
    process.called_at = now_;
    on_reached(peer);
  } else if (process.reached && now_ - process.called_at >= kReachKept) {
    process.reached = false;
    process.core->on_reached(local_now(process), Reach::kUnspecified);
    drain(peer, nullptr);
  }
}

bool SimNetwork::is_called(std::uint32_t peer) const {
  if (transport_.behind_nat(peer)) return false;
  for (std::uint32_t other = 0; other < options_.peers; ++other) {
    const bool there = other != peer && processes_[other].fate == Fate::kUp;
    if (!there || !transport_.connected(now_, {other, peer})) continue;
    if (!transport_.blocked({other, peer}) && !transport_.blocked({peer, other})) return true;
  }
  return false;
}

// Before it leaves, or turns out to have no way.
void SimNetwork::note_said(Route route, const Message& message) {
  if (processes_[route.from].hostile || route.to >= options_.peers) return;
  if (graves_.may_say(now_, route, message)) return;
  audit_.fail(now_, route.from,
              "writes to peer " + std::to_string(route.to) + ", which it has held dead for long: " +
                  "message " + std::to_string(message.index()));
}

// To somebody who may not be a peer of ours.
void SimNetwork::say(Route route, const Message& message, const SimPayload* payload) {
  if (route.to >= options_.peers) return;  // nobody there, or nobody with that key
  if (const auto& hostile = processes_[route.from].hostile) {
    say_all(route.from, hostile->twist(route.to, message, payload));
  } else {
    send(route, message, payload);
  }
}

void SimNetwork::say_all(std::uint32_t peer, const std::vector<SimSaid>& said) {
  for (const SimSaid& one : said) {
    send({peer, one.to}, one.message, one.payload ? &*one.payload : nullptr);
  }
}

void SimNetwork::do_deeds(std::uint32_t peer) {
  SimHostile& hostile = *processes_[peer].hostile;
  say_all(peer, hostile.deeds());
  at(now_ + hostile.until_next_deed(), SimEventKind::kDeed, peer);
}

void SimNetwork::send_connected(Route route, const Message& message, const SimPayload* payload) {
  if (transport_.connected(now_, first_leg(route))) {
    say(route, message, payload);
    return;
  }
  ++stats_[SimCount::kSendFailures];
  at(now_, SimEventKind::kSendFailed, route.from, route.to);
}

void SimNetwork::ship(Route route, const Said& said) {
  const Shipment shipment = transport_.ship(now_, route, said.payload != nullptr);
  ++stats_[SimCount::kMessages];
  if (shipment.copies == 0) ++stats_[SimCount::kLost];
  if (shipment.copies == 2) ++stats_[SimCount::kDuplicated];
  if (shipment.overtakes) ++stats_[SimCount::kOvertaken];
  for (std::uint32_t copy = 0; copy < shipment.copies; ++copy) {
    if (shipment.arrivals[copy] - now_ > std::chrono::seconds(1)) ++stats_[SimCount::kSpikes];
    if (free_parcels_.empty()) {
      free_parcels_.push_back(static_cast<std::uint32_t>(parcels_.size()));
      parcels_.push_back(std::make_unique<Parcel>());
    }
    const std::uint32_t parcel = free_parcels_.back();
    free_parcels_.pop_back();
    Parcel& filled = *parcels_[parcel];
    filled.route = route;
    filled.shipment = shipment;
    filled.first_try = true;
    filled.unreadable = said.unreadable;
    filled.damaged = !healed_ && !said.envelope && options_.faults.corruption > 0 &&
                     wire_rng_.chance(options_.faults.corruption);
    filled.envelope = said.envelope;
    filled.message = said.message;
    filled.payload = said.payload == nullptr ? SimPayload{} : *said.payload;
    at(shipment.arrivals[copy], SimEventKind::kDelivery, route.to, parcel);
  }
}

void SimNetwork::deliver(const SimEvent& event) {
  Parcel& parcel = *parcels_[event.detail];
  Process& process = processes_[parcel.route.to];
  const bool cut_off = transport_.blocked(parcel.route);
  const bool away = process.fate == Fate::kDown || cut_off;
  if (away && parcel.shipment.lasting && processes_[parcel.route.to].fate != Fate::kGone) {
    if (parcel.first_try) ++stats_[SimCount::kLateArrivals];
    parcel.first_try = false;
    at(now_ + std::chrono::seconds(1), SimEventKind::kDelivery, parcel.route.to, event.detail);
    return;
  }
  if (cut_off) ++stats_[SimCount::kCutOff];
  if (!away && process.fate == Fate::kUp && process.paused) {
    process.deferred.push_back(event);
    return;
  }
  if (!away && process.fate == Fate::kUp && transport_.arrives(parcel.route, parcel.shipment)) {
    ++stats_[SimCount::kDelivered];
    trace_ = mix64(trace_ ^ parcel.message.index());
    arrive(parcel);
  }
  free_parcels_.push_back(event.detail);
}

void SimNetwork::arrive(const Parcel& parcel) {
  const std::uint32_t peer = parcel.route.to;
  Process& process = processes_[peer];
  if (parcel.envelope && parcel.envelope->route.to != peer) return forward(peer, parcel);
  if (parcel.damaged) return take_damaged(parcel);
  if (parcel.unreadable) return take_bad_frame(parcel.route, RejectReason::kMalformed);
  if (process.hostile) process.hostile->hear(parcel.message);
  graves_.on_heard(now_, {peer, (parcel.envelope ? parcel.envelope->route : parcel.route).from});
  if (parcel.envelope) {
    open(parcel.route.from, parcel);
  } else {
    process.core->on_message(local_now(process), sim_peer_id(parcel.route.from), parcel.message);
  }
  drain(peer, is_bulk(parcel.message) ? &parcel.payload : nullptr);
}

void SimNetwork::note_rejected(std::uint32_t peer, const Rejected& event) {
  ++stats_[event.by_us ? SimCount::kRejected : SimCount::kRejectionsHeard];
  if (processes_[peer].hostile || hostile(event.peer) || reads_damage_) return;
  // Among honest peers nothing is turned down but for want of a slot, or what came late.
  const bool innocent =
      event.reason == RejectReason::kNoRoom || event.reason == RejectReason::kOverrun;
  if (!innocent) {
    audit_.fail(now_, peer, "rejects an honest peer: " + std::string(to_string(event.reason)));
  }
}

// The living are not to be taken for dead for long.
void SimNetwork::note_changed(std::uint32_t peer, const PeerChanged& event) {
  const std::uint32_t subject = Perform::index(event.record.key.id);
  if (processes_[peer].hostile || subject >= options_.peers) return;
  graves_.on_health(now_, {peer, subject}, event.record.health);
  const Process& other = processes_[subject];
  const bool lives = other.fate == Fate::kUp && process_of(event.record).incarnation == other.life;
  const bool buried = lives && !other.hostile && event.record.health == Health::kDead;
  const auto [row, fresh] = buried_.try_emplace({peer, subject}, now_);
  if (buried && fresh) ++stats_[SimCount::kBuried];
  if (buried) return;
  if (!fresh) longest_burial_ = std::max(longest_burial_, now_ - row->second);
  buried_.erase(row);
}

void SimNetwork::note_muted(std::uint32_t peer, const Muted& event) {
  if (processes_[peer].hostile) return;
  if (hostile(event.peer)) {
    if (muted_.insert({peer, event.peer}).second) ++stats_[SimCount::kMutes];
  } else if (event.by_us) {
    audit_.fail(now_, peer, "mutes an honest peer");
  }
}

bool SimNetwork::both_behind_nat(const ExchangeKey& exchange) const {
  return transport_.behind_nat(Perform::index(exchange.initiator.id)) &&
         transport_.behind_nat(Perform::index(exchange.responder.id));
}

void SimNetwork::note_ended(std::uint32_t peer, const ExchangeEnded& event) {
  audit_.on_exchange_ended(now_, peer, event);
  if (processes_[peer].hostile) return;
  const PeerKey& partner =
      event.role == Role::kInitiator ? event.exchange.responder : event.exchange.initiator;
  if (event.outcome == Outcome::kCompleted && !hostile(partner.id)) {
    ++stats_[SimCount::kHonestExchanges];
  }
  switch (event.outcome) {
    case Outcome::kCompleted:
      ++stats_[SimCount::kExchangesCompleted];
      ++processes_[peer].completed_since_heal;
      if (both_behind_nat(event.exchange)) ++stats_[SimCount::kExchangesRelayed];
      break;
    case Outcome::kPartial: ++stats_[SimCount::kExchangesPartial]; break;
    case Outcome::kDeclined: ++stats_[SimCount::kExchangesDeclined]; break;
    case Outcome::kTimedOut:
    case Outcome::kPeerLost:
    case Outcome::kAborted: ++stats_[SimCount::kExchangesFailed]; break;
  }
}

}  // namespace starling::gossip
