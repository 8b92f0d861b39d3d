#include "gossip/core_context.h"

#include <algorithm>
#include <numeric>

namespace starling::gossip {
namespace {

// Those that a peer says forward to it, and the one by which it came.
using Relays = BoundedList<PeerId, kRelaysMax + 1>;

Relays relays_of(const CoreContext& context, const Peer& peer) {
  Relays relays;
  const auto add = [&](PeerId relay) {
    const bool known = std::find(relays.begin(), relays.end(), relay) != relays.end();
    if (!known && context.can_relay(context.now, relay)) STARLING_ASSERT(relays.try_push(relay));
  };
  if (!context.uses_relays() || !is_out_of_reach(peer, context.now)) return relays;
  for (const PeerId relay : peer.record.relays) add(relay);
  if (peer.heard_through != PeerId{}) add(peer.heard_through);
  return relays;
}

}  // namespace

std::size_t owed_max(const GossipConfig& config) {
  return std::size_t{2} * (config.initiated_max + 1) * config.window;
}

std::size_t in_doubt_max(const GossipConfig& config, std::span<const std::uint32_t> stripes) {
  constexpr std::size_t kPartners = 8;
  const auto all = std::accumulate(stripes.begin(), stripes.end(), std::size_t{0});
  return std::min(std::max(all, kPartners * owed_max(config)), Ledger::kInitiatorRowsMax);
}

CodeAgreement CoreContext::codes_with(PeerId peer) const {
  const Peer* row = peers.find(peer);
  return {config, row == nullptr ? kVersions.min : row->version};
}

bool CoreContext::is_live(const PeerKey& process) const {
  if (process == self) return true;
  const Peer* peer = peers.find(process.id);
  return peer != nullptr && peer->record.health == Health::kAlive &&
         process_of(peer->record) == process;
}

TokenShares CoreContext::token_shares(Instant at) const {
  return tokens.shares(
      at, [this](const PeerKey& process) { return is_live(process); },
      [this](PeerId id) { return counts(id); });
}

BelievedRates CoreContext::believed_rates() const {
  BelievedRates rates;
  tokens.for_each([&](const PeerKey& process, std::uint64_t, float rate) {
    if (!(rate > 0) || !is_live(process) || !counts(process.id)) return;
    rates.all.push_back(rate);
    if (rate > rates.fastest) {
      rates.fastest = rate;
      rates.fastest_peer = process.id;
    }
    if (process == self) rates.own = rate;
  });
  const double usual = std::max(rates.own, usual_of(rates.all));
  rates.fastest = std::min(rates.fastest, TokenShares::kRatio * usual);
  return rates;
}

std::vector<double> BelievedRates::shares() const {
  std::vector<double> result = all;
  for (double& rate : result) rate = std::min(rate / fastest, 1.0);
  return result;
}

double CoreContext::speed_share() const {
  const BelievedRates rates = believed_rates();
  return rates.own > 0 ? rates.own / rates.fastest : 1;
}

double CoreContext::weighed_share() const {
  const BelievedRates rates = believed_rates();
  if (rates.own > 0) return rates.own / rates.fastest;
  if (rates.all.empty()) return 1;
  const std::vector<double> shares = rates.shares();
  return *std::min_element(shares.begin(), shares.end());
}

double CoreContext::equal_peers() const {
  const BelievedRates rates = believed_rates();
  return rates.own > 0 ? gossip::equal_peers(rates.shares(), config.rate_power) : 1;
}

void CoreContext::note_progress(Instant at, std::uint64_t trained) {
  if (!(config.rate_power > 0) || !(config.lag_discount > 0) || !freshness.due(at)) return;
  const BelievedRates rates = believed_rates();
  const double pace = mean_pace(rates.shares(), config.rate_power);
  freshness.on_progress(at, trained, pace, rates.fastest);
}

// What is usual one partner alone must not say, where there are others: it could take a peer that
// has just come wherever it likes. And whatever all of them say, others move by about as much as
// this peer in a round of its own.
float CoreContext::wanted_radius(const FragmentState& state) const {
  if (state.first_radius <= 0) return state.clip_radius;
  if (state.clip_radius <= 0) return state.first_radius;
  const bool few = state.voters < kVotersLeast && state.voters < peers.partners();
  const float usual = std::max(state.clip_radius, state.step);
  return few ? std::min(usual, state.first_radius) : usual;
}

float CoreContext::clip_radius(FragmentId fragment) {
  const FragmentState& state = fragments[fragment.value];
  const float radius = gentle.radius(now, fragment, wanted_radius(state), state.step);
  return radius > 0 ? std::max(radius, kClipRadiusMin) : 0;
}

void CoreContext::note_completed(const CompletedExchange& exchange) {
  const auto& [fragment, partner, role, terms, lag, clip_factor] = exchange;
  const bool began = role == Role::kInitiator;
  const float weight = began ? terms.responder_weight : terms.initiator_weight;
  const double sum = double{terms.initiator_weight} + double{terms.responder_weight};
  // Of one that was far away and is clipped little has come here.
  if (clip_factor >= kNearClip) newcomer.on_completed(fragment, partner, weight, peers.partners());
  gentle.on_completed(fragment, fragments[fragment.value].clip_radius);
  if (sum > 0) freshness.on_mixed(fragment, 2.0 * terms.mixing * weight / sum, lag);
  note_footing();
}

Footing CoreContext::footing() const {
  if (newcomer.pulled()) return newcomer.orphaned() ? Footing::kLeftAlone : Footing::kPulled;
  const bool discounted = config.rate_power > 0 && config.lag_discount > 0;
  const bool late = discounted && freshness.missed() >= kMissedTold;
  return late ? Footing::kLate : Footing::kSettled;
}

void CoreContext::note_footing() {
  const Footing latest = footing();
  if (std::exchange(footing_told, latest) == latest) return;
  emit(FootingChanged{latest, freshness.missed()});
}

float CoreContext::weight(FragmentId fragment) const {
  if (!(config.rate_power > 0)) return weight();
  return static_cast<float>(weight() * freshness.share(fragment, config.lag_discount));
}

bool CoreContext::can_relay(Instant at, PeerId id) const {
  const Peer* peer = peers.find(id);
  return peer != nullptr && peer->welcomed && peer->record.health == Health::kAlive &&
         peer->record.forwards && peer->record.dialable && !conduct.muted(at, id);
}

PeerId CoreContext::relay_to(const Peer& peer) {
  const Relays relays = relays_of(*this, peer);
  if (relays.empty()) return {};
  if (std::find(relays.begin(), relays.end(), peer.relay) != relays.end()) return peer.relay;
  return relays[static_cast<std::size_t>(rng.below(relays.size()))];
}

void CoreContext::take_other_relay(Peer& peer) {
  const Relays relays = relays_of(*this, peer);
  for (const PeerId relay : relays) {
    if (relay == peer.relay) continue;
    peer.relay = relay;
    peer.relay_since = now;
    if (peer.connected) connect(peer);
    return;
  }
}

void CoreContext::doubt_relay(PeerId to, Instant sent) {
  Peer* peer = peers.find(to);
  if (peer == nullptr || peer->relay == PeerId{} || sent < peer->relay_since) return;
  take_other_relay(*peer);
}

RelayPath CoreContext::path_to(Peer& peer) {
  const PeerId relay = relay_to(peer);
  if (relay != peer.relay) peer.relay_since = now;
  peer.relay = relay;
  if (peer.relay == PeerId{}) return {};
  open_line(peer.relay);
  return {peer.relay, process_of(peer.record).incarnation};
}

void CoreContext::reject(Instant at, PeerId peer, RejectReason reason) {
  STARLING_ASSERT(reason != RejectReason::kNone);
  ++stats.rejected[static_cast<std::size_t>(reason)];
  emit(Rejected{peer, reason, true});
  // Keys cost nothing: of one that never introduced itself nothing is kept.
  const Peer* row = peers.find(peer);
  if (row == nullptr || !row->met) return;
  if (blame_for(reason) == Blame::kDoubt) conduct.doubt(at, peer);
  if (blame_for(reason) != Blame::kProof) return;
  const Duration length = conduct.offend(at, peer);
  if (length == Duration::zero()) {  // muted already
    // Whoever floods on is told of again, so that it is not even read from now on.
    const Duration left = conduct.muted_for(at, peer);
    if (reason == RejectReason::kDeluge) emit(Muted{peer, reason, left, true});
    return;
  }
  ++stats.mutes;
  just_muted.push_back(peer);
  emit(Muted{peer, reason, length, true});
}

void CoreContext::note_payload(Instant at, PeerId from, bool wanted) {
  Peer* row = peers.find(from);
  if (row == nullptr || !row->met) return;
  if (wanted) return row->unasked.give();
  measure(at, from, row->unasked);
}

void CoreContext::note_bad_frame(Instant at, PeerId from, RejectReason reason) {
  reject(at, from, reason);
  Peer* row = peers.find(from);
  if (row == nullptr || !row->met) return;
  measure(at, from, blame_for(reason) == Blame::kProof ? row->unasked : row->waste);
}

void CoreContext::measure(Instant at, PeerId from, MessageMeter& meter) {
  const MessageMeter::Intake intake = meter.take(at);
  if (intake == MessageMeter::Intake::kTaken) return;
  const bool deluge = intake == MessageMeter::Intake::kDeluge;
  reject(at, from, deluge ? RejectReason::kDeluge : RejectReason::kTooMany);
}

void CoreContext::note_rejection(PeerId peer, RejectReason reason) {
  if (reason == RejectReason::kNone) return;
  ++stats.rejections_heard[static_cast<std::size_t>(reason)];
  emit(Rejected{peer, reason, false});
}

void CoreContext::assert_invariants() const {
  STARLING_ASSERT(peers.rows().size() <= config.peers_max);
  STARLING_ASSERT(peers.news_are_bounded());
  STARLING_ASSERT(lines.size() <= peers.rows().size());
  STARLING_ASSERT(tokens.size() <= tokens.size_max());
  STARLING_ASSERT(conduct.size() <= Conduct::kRowsMax);
  STARLING_ASSERT(paces.size() <= Paces::kRowsMax);
}

}  // namespace starling::gossip
