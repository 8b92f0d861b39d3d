#include "gossip/responder.h"

#include <algorithm>
#include <vector>

namespace starling::gossip {
namespace {

std::uint32_t retry_after_ms(DeclineReason reason) {
  switch (reason) {
    case DeclineReason::kBusy: return 500;
    case DeclineReason::kLeased: return 250;
    case DeclineReason::kUnknownPeer: return 1000;
    case DeclineReason::kBadOffer: return 600000;
    case DeclineReason::kClosing: return 60000;
    case DeclineReason::kResting: return 60000;
    case DeclineReason::kSick: return 60000;
    case DeclineReason::kMuted: return 600000;
  }
  return 0;
}

// The smaller radius that is set at all.
float agreed_clip(float left, float right) {
  if (left <= 0 || right <= 0) return std::max(left, right);
  return std::min(left, right);
}

}  // namespace

Responder::Responder(CoreContext& context, const RestoredState& restored)
    : context_(context), partner_turns_(context.fragments.size()) {
  std::vector<LedgerRow> ours;
  for (const LedgerRow& row : restored.ledger) {
    if (row.role == Role::kResponder && row.ref.exchange.responder.id == context_.self.id) {
      ours.push_back(row);
    }
  }
  applied_ = Ledger(ours);
}

std::optional<DeclineReason> Responder::objection(const Offer& offer) const {
  if (offer.exchange.responder != context_.self) return DeclineReason::kUnknownPeer;
  if (context_.peers.process(offer.exchange.initiator.id) != offer.exchange.initiator) {
    return DeclineReason::kUnknownPeer;
  }
  const bool known_fragment = context_.has_fragment(offer.fragment) &&
                              offer.stripes == context_.stripes[offer.fragment.value];
  if (!known_fragment || !has_sound_terms(offer)) return DeclineReason::kBadOffer;
  if (context_.sick) return DeclineReason::kSick;
  if (context_.closing) return DeclineReason::kClosing;
  if (context_.resting || context_.paced) return DeclineReason::kResting;
  if (context_.conduct.shut_out(context_.now, offer.exchange.initiator.id)) {
    return DeclineReason::kResting;
  }
  if (!has_place(offer.exchange.initiator.id)) return DeclineReason::kBusy;
  if (!has_turn(offer)) return DeclineReason::kLeased;
  if (!context_.newcomer.decided()) return DeclineReason::kBusy;  // own weight not known yet
  return std::nullopt;
}

bool Responder::has_place(PeerId peer) const {
  const std::size_t places = context_.config.accepted_max;
  if (open_.size() + 1 < places) return true;
  if (open_.size() >= places) return false;
  if (context_.peers.count(Health::kAlive) <= CoreContext::kFew) return true;
  return !involves(peer) && !context_.conduct.yields(context_.now, peer);
}

// Where there are few others somebody has to have it.
bool Responder::has_turn(const Offer& offer) const {
  const PeerId by = offer.exchange.initiator.id;
  const std::uint64_t others = context_.peers.count(Health::kAlive);
  return others <= CoreContext::kFew || (!turns_.is_others(context_.now, offer.fragment, by) &&
                                         partner_turns_.may_begin(offer.fragment, by, others));
}

void Responder::note_wanted(PeerId by, const Offer& offer, DeclineReason reason) {
  const bool any = reason == DeclineReason::kBusy;
  if (!any && reason != DeclineReason::kLeased) return;
  for (auto& [key, lease] : open_) {
    if (key.initiator.id == by) continue;
    const bool same = lease.fragment == offer.fragment;
    lease.wanted |= any || same;
    lease.fragment_wanted |= same;
  }
}

bool Responder::is_repeated(Instant now, PeerId from, const Offer& offer) {
  Peer* peer = context_.peers.find(from);
  if (peer == nullptr || offer.exchange.initiator.id != from || offer.exchange.counter == 0) {
    context_.reject(now, from, RejectReason::kWrongName);
    return true;
  }
  if (process_of(peer->record) != offer.exchange.initiator) return false;
  if (offer.exchange.counter > peer->offers_seen) {
    // Whatever the answer is, this exchange never begins a second time: an old Push or Commit of
    // it must find nothing.
    peer->offers_seen = offer.exchange.counter;
    return false;
  }
  const auto found = open_.find(offer.exchange);
  if (found != open_.end()) context_.send(from, found->second.accepted);
  if (found == open_.end()) context_.refuse_message();
  return true;
}

void Responder::accept(Instant now, PeerId from, const Offer& offer) {
  const GossipConfig& config = context_.config;
  const FragmentState& own = context_.fragments[offer.fragment.value];
  const CodeAgreement codes = context_.codes_with(from);
  const auto common = codes.common(offer.format, codes.offered(context_.format));
  const bool cold = offer.cold || own.cold || !common;
  Lease lease;
  lease.fragment = offer.fragment;
  lease.stripes = offer.stripes;
  lease.accepted = {offer.exchange,
                    cold ? config.cold_format : *common,
                    context_.weight(offer.fragment),
                    std::min(offer.mixing, config.mixing),
                    agreed_clip(offer.clip_radius, context_.clip_radius(offer.fragment)),
                    std::max<std::uint16_t>(config.window, 1),
                    context_.standing,
                    context_.freshness.lag(offer.fragment)};
  lease.terms = {lease.accepted.mixing, offer.weight, lease.accepted.weight,
                 lease.accepted.clip_radius};
  lease.partner_lag = offer.lag_s;
  // Its attempts in a row, each longer than the one before, with some to spare.
  const Duration patience = std::clamp<Duration>(
      std::chrono::milliseconds(offer.patience_ms),
      std::min(config.silence_min, config.stripe_timeout), config.stripe_timeout);
  lease.silence_max = std::min<Duration>(8 * patience, 2 * config.stripe_timeout);
  lease.begun = now;
  lease.ends_at = now + 2 * lease.silence_max;
  context_.leases.take(offer.fragment);
  partner_turns_.on_begun(offer.fragment, from);
  open_.emplace(offer.exchange, lease);
  touch(now, offer.exchange);
  context_.send(from, lease.accepted);
}

void Responder::decline(PeerId from, const Offer& offer, DeclineReason reason) {
  note_wanted(from, offer, reason);
  ++context_.stats.declines_sent;
  context_.send(from, Decline{offer.exchange, reason, retry_after_ms(reason)});
}

void Responder::decline_muted(Instant now, PeerId from, const ExchangeKey& exchange) {
  if (!context_.conduct.tell(from)) return;
  ++context_.stats.declines_sent;
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(context_.conduct.muted_for(now, from));
  context_.send(from,
                Decline{exchange, DeclineReason::kMuted, static_cast<std::uint32_t>(left.count())});
}

void Responder::decline_strange(PeerId from, const Offer& offer) {
  const bool may_be_forgotten = context_.peers.nearly_full();
  if (context_.peers.find(from) == nullptr && !may_be_forgotten) return;
  if (offer.exchange.initiator.id != from || offer.exchange.responder.id != context_.self.id)
    return;
  ++context_.stats.declines_sent;
  const DeclineReason reason = DeclineReason::kUnknownPeer;
  context_.emit(Reply{from, Decline{offer.exchange, reason, retry_after_ms(reason)}});
}

void Responder::on_push(Instant now, PeerId from, const StripeRef& ref) {
  if (!speaks_for(now, from, ref.exchange)) return;
  const auto lease = open_.find(ref.exchange);
  const auto stripe = stripes_.find(stripe_key(ref));
  if (lease == open_.end()) {
    // Only what is staged already may go on; for anything new the lease is gone, say so.
    context_.note_payload(now, from, false);
    if (stripe != stripes_.end() && stripe->second.machine.attempt() == ref.attempt) {
      drive(now, ref, Input::kPush);
    } else {
      decline(from, Offer{ref.exchange, ref.fragment}, DeclineReason::kClosing);
    }
    return;
  }
  const bool valid = ref.fragment == lease->second.fragment && ref.stripe < lease->second.stripes &&
                     ref.attempt < kAttemptsMax;
  const std::size_t unsettled_max = 2 * std::size_t{lease->second.accepted.window};
  if (!valid) {
    context_.reject(now, from, RejectReason::kWrongName);
    return;
  }
  // Also of a stripe that was staged before and came to nothing.
  const bool begins = stripe == stripes_.end() || stripe->second.machine.stages_next(ref.attempt);
  if (begins && lease->second.unsettled >= unsettled_max) {
    context_.reject(now, from, RejectReason::kOverrun);
    context_.note_payload(now, from, false);
    return;
  }
  // Nobody says an attempt twice; a later one may follow where the answer to a staged one was lost.
  const bool later = stripe != stripes_.end() && stripe->second.machine.staged() &&
                     ref.attempt > stripe->second.machine.attempt();
  if (!later) context_.note_payload(now, from, begins);
  if (stripe == stripes_.end()) {
    Stripe fresh;
    fresh.terms = lease->second.terms;
    fresh.format = lease->second.accepted.format;
    stripes_.emplace(stripe_key(ref), fresh);
  }
  drive(now, ref, Input::kPush);
}

void Responder::on_commit(Instant now, PeerId from, const StripeRef& ref) {
  if (!speaks_for(now, from, ref.exchange)) return;
  note_progress(now, ref);
  drive(now, ref, Input::kCommit);
}

void Responder::on_abort(Instant now, PeerId from, const Abort& message) {
  if (!speaks_for(now, from, message.ref.exchange)) return;
  if (stripes_.count(stripe_key(message.ref)) != 0) context_.note_rejection(from, message.reason);
  drive(now, message.ref, Input::kAbort);
}

void Responder::on_resend(Instant now, PeerId from, const StripeRef& ref) {
  if (!speaks_for(now, from, ref.exchange)) return;
  drive(now, ref, Input::kResend);
}

void Responder::on_finish(Instant now, PeerId from, const ExchangeKey& key) {
  if (!speaks_for(now, from, key)) return;
  const auto lease = open_.find(key);
  if (lease == open_.end()) return;
  // It had the fragment for nothing, as if it had been silent.
  if (lease->second.applied == 0) context_.note_silence(now, from, lease->second.begun);
  end(now, key, Outcome::kAborted);
}

void Responder::on_staged(Instant now, const StripeRef& ref, const Verdict& verdict,
                          std::size_t payload_bytes) {
  const PeerId partner = ref.exchange.initiator.id;
  const auto found = stripes_.find(stripe_key(ref));
  if (verdict.far && found != stripes_.end()) {
    context_.note_far(now, partner, found->second.terms);
  }
  if (found != stripes_.end()) {
    found->second.reissuing = false;
    found->second.reissue_again = now + CoreContext::kResumePause;
  }
  if (found != stripes_.end() && verdict.done()) {
    found->second.payload_bytes = payload_bytes;
    found->second.repeated = found->second.machine.state() == State::kStaged;
    found->second.sent_at = now;
    found->second.unsure = false;
    note_clipped(ref.exchange, verdict.clip_factor);
  }
  if (!verdict.done()) context_.reject(now, partner, verdict.reason);
  drive(now, ref, verdict.done() ? Input::kStageDone : Input::kStageFailed, verdict.reason);
}

void Responder::on_applied(Instant now, const StripeRef& ref, const Verdict& verdict) {
  if (!verdict.done()) context_.reject(now, ref.exchange.initiator.id, verdict.reason);
  drive(now, ref, verdict.done() ? Input::kApplyDone : Input::kApplyFailed, verdict.reason);
}

void Responder::on_muted(Instant now, PeerId peer) {
  std::vector<ExchangeKey> over;
  for (const auto& [key, lease] : open_) {
    if (key.initiator.id == peer) over.push_back(key);
  }
  for (const ExchangeKey& key : over) {
    decline_muted(now, peer, key);
    end(now, key, Outcome::kAborted);
  }
}

// Should it come back, what is staged is asked about.
void Responder::on_peer_lost(Instant now, PeerId peer) {
  broken_.erase(peer);
  std::vector<ExchangeKey> over;
  for (const auto& [key, lease] : open_) {
    if (key.initiator.id == peer) over.push_back(key);
  }
  for (const ExchangeKey& key : over) end(now, key, Outcome::kPeerLost);
}

void Responder::abandon_all(Instant now) {
  while (!open_.empty()) end(now, ExchangeKey(open_.begin()->first), Outcome::kAborted);
}

// Gives the lease back. What is staged stays in doubt and is asked about.
void Responder::end(Instant now, const ExchangeKey& key, Outcome incomplete) {
  const auto found = open_.find(key);
  if (found == open_.end()) return;
  const Lease lease = found->second;
  const bool completed = lease.applied == lease.stripes;
  const bool partial = lease.applied > 0 && incomplete != Outcome::kPeerLost;
  const Outcome outcome = completed ? Outcome::kCompleted
                          : partial ? Outcome::kPartial
                                    : incomplete;
  context_.leases.release(lease.fragment);
  context_.emit(ExchangeEnded{key, lease.fragment, Role::kResponder, outcome, lease.applied,
                              lease.clip_factor});
  ++(completed ? context_.stats.exchanges_completed : context_.stats.exchanges_failed);
  if (completed) {
    context_.note_completed({lease.fragment, key.initiator.id, Role::kResponder, lease.terms,
                             lease.partner_lag, lease.clip_factor});
  }
  if (completed) context_.conduct.completed(key.initiator.id);
  const Duration held = now - lease.begun;
  const Duration long_held =
      std::max<Duration>(kLongHeld * usual_held_, context_.config.silence_min);
  if (lease.wanted && held > long_held) {
    context_.conduct.kept_others_out(now, key.initiator.id, held);
  }
  if (lease.fragment_wanted && held > long_held) {
    turns_.kept_others_out(now, lease.fragment, key.initiator.id, held);
  }
  const bool first = usual_held_ == Duration::zero();
  if (completed) usual_held_ += (held - usual_held_) / (first ? 1 : kHeldMemory);
  lease_timers_.clear(key);
  open_.erase(found);
  std::vector<StripeRef> stripes;
  for (auto item = stripes_.lower_bound(StripeRef{key, lease.fragment, 0, 0});
       item != stripes_.end() && item->first.exchange == key; ++item) {
    stripes.push_back(item->first);
  }
  for (const StripeRef& stripe : stripes) {
    StripeRef ref = stripe;
    ref.attempt = stripes_.at(stripe).machine.attempt();
    drive(now, ref, Input::kClose);
    // What has ended already does not notice; the ledger remembers what was applied.
    const auto left = stripes_.find(stripe);
    if (left == stripes_.end()) continue;
    const State state = left->second.machine.state();
    if (state == State::kApplied || state == State::kDropped) stripes_.erase(left);
  }
  drop_oldest_staged(now);
}

bool Responder::speaks_for(Instant now, PeerId from, const ExchangeKey& key) {
  if (key.responder.id == context_.self.id && key.initiator.id == from) return true;
  context_.reject(now, from, RejectReason::kWrongName);
  return false;
}

// Its initiator has brought the exchange forward: only that prolongs a lease, and only as long as
// stripes are settled.
void Responder::touch(Instant now, const ExchangeKey& key) {
  Lease& lease = open_.at(key);
  lease.gives_up_at = std::min(now + lease.silence_max, lease.ends_at);
  lease.retry = context_.accept_repeat();
  lease_timers_.set(key, std::min(now + lease.retry, lease.gives_up_at));
}

void Responder::on_lease_timer(Instant now, const ExchangeKey& key) {
  Lease& lease = open_.at(key);
  const PeerId initiator = key.initiator.id;
  if (now >= lease.gives_up_at) {
    context_.note_silence(now, initiator, now - lease.silence_max);
    end(now, key, Outcome::kTimedOut);
    return;
  }
  if (context_.peers.is_welcome(initiator)) context_.send(initiator, lease.accepted);
  lease.retry = std::min<Duration>(lease.retry * 2, kQueryMax);
  lease_timers_.set(key, std::min(now + lease.retry, lease.gives_up_at));
}

std::optional<Instant> Responder::next_deadline() const {
  const auto lease = lease_timers_.next();
  const auto stripe = stripe_timers_.next();
  if (!lease || !stripe) return lease ? lease : stripe;
  return std::min(*lease, *stripe);
}

bool Responder::involves(PeerId peer) const {
  return std::any_of(open_.begin(), open_.end(),
                     [peer](const auto& item) { return item.first.initiator.id == peer; });
}

void Responder::assert_invariants() const {
  STARLING_ASSERT(open_.size() <= context_.config.accepted_max);
  std::map<ExchangeKey, std::uint32_t> unsettled;
  std::size_t left_behind = 0;
  for (const auto& [key, stripe] : stripes_) {
    STARLING_ASSERT(key.exchange.responder == context_.self);
    const State state = stripe.machine.state();
    if (stripe.machine.staged() || state == State::kApplying) ++unsettled[key.exchange];
    STARLING_ASSERT((state == State::kStaged) == stripe_timers_.contains(key));
    const bool over = open_.count(key.exchange) == 0;
    if (over) STARLING_ASSERT(state == State::kStaged || state == State::kApplying);
    if (over && state == State::kStaged) ++left_behind;
  }
  STARLING_ASSERT(left_behind <= std::min(kStagedMax, context_.in_doubt));
  STARLING_ASSERT(applied_.size() <= Ledger::kRowsMax);
  STARLING_ASSERT(turns_.size() <= FragmentTurns::kRowsMax);
  for (const auto& [key, lease] : open_) {
    STARLING_ASSERT(context_.leases.held(lease.fragment));
    STARLING_ASSERT(lease.unsettled == unsettled[key]);
    STARLING_ASSERT(lease.unsettled <= 2 * std::size_t{lease.accepted.window});
    STARLING_ASSERT(lease_timers_.contains(key));
  }
}

}  // namespace starling::gossip
