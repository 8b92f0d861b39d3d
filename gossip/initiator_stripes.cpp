// What an Initiator does with the stripes of accepted exchanges, until each is settled.
#include <algorithm>
#include <utility>

#include "gossip/initiator.h"

namespace starling::gossip {
namespace {

constexpr Duration kAhead = std::chrono::seconds(2);  // of payloads under way

}  // namespace

// May one more stripe be under way? A commit does not take up the line, so only the stripes without
// an answer fill the window: it need not cover more than one round trip.
bool Initiator::has_room(Instant now, const Exchange& exchange) {
  return exchange.under_way - exchange.answered < window_now(now, exchange) &&
         exchange.under_way < 2U * exchange.window && !in_doubt(exchange.key.responder.id);
}

// Too much is in doubt to begin anything more with the partner.
bool Initiator::in_doubt(PeerId partner) const {
  return stripes_.size() >= context_.in_doubt || owes(partner);
}

// Starts stripes while the window is open; ends the exchange when none is left.
void Initiator::advance(Instant now, const ExchangeKey& key) {
  const auto found = open_.find(key);
  if (found == open_.end() || !found->second.active) return;
  Exchange& exchange = found->second;
  const std::uint32_t total = exchange.offer.stripes;
  while (exchange.next_stripe < total && has_room(now, exchange)) {
    const StripeRef ref{key, exchange.round.fragment, exchange.next_stripe++, 0};
    Stripe stripe{InitiatorStripe(kAttemptsMax)};
    stripe.format = exchange.format;
    stripe.terms = exchange.terms;
    stripe.leased = true;
    ++exchange.under_way;
    stripes_.emplace(ref, stripe);
    context_.emit(EncodeStripe{ref, exchange.format});
  }
  const bool stuck = exchange.next_stripe < total && in_doubt(key.responder.id);
  if (exchange.under_way > 0 || (exchange.next_stripe < total && !stuck)) return;
  const Outcome none = exchange.timed_out ? Outcome::kTimedOut : Outcome::kAborted;
  const Outcome outcome = exchange.applied == total ? Outcome::kCompleted
                          : exchange.applied > 0    ? Outcome::kPartial
                                                    : none;
  close(now, key, outcome);
}

// Gives the lease back. What is not applied never will be; what is applied is settled later.
void Initiator::close(Instant now, const ExchangeKey& name, Outcome outcome) {
  const ExchangeKey key = name;
  const auto found = open_.find(key);
  if (found == open_.end()) return;
  const Exchange exchange = found->second;
  end(exchange,
      exchange.applied > 0 && outcome != Outcome::kCompleted && outcome != Outcome::kPeerLost
          ? Outcome::kPartial
          : outcome);
  std::vector<StripeRef> under_way;
  for (auto item = stripes_.lower_bound(StripeRef{key, exchange.round.fragment, 0, 0});
       item != stripes_.end() && item->first.exchange == key; ++item) {
    item->second.leased = false;
    under_way.push_back(item->first);
  }
  for (StripeRef ref : under_way) {
    ref.attempt = stripes_.at(ref).machine.attempt();
    drive(now, ref, Input::kClose);
  }
  const PeerId partner = key.responder.id;
  if (context_.peers.is_welcome(partner)) context_.send(partner, Finish{key});
}

void Initiator::end(const Exchange& exchange, Outcome outcome) {
  const FragmentId fragment = exchange.round.fragment;
  context_.leases.release(fragment);
  context_.emit(ExchangeEnded{exchange.key, fragment, Role::kInitiator, outcome, exchange.applied,
                              exchange.clip_factor});
  if (outcome == Outcome::kCompleted) {
    ++context_.stats.exchanges_completed;
    context_.note_completed({fragment, exchange.key.responder.id, Role::kInitiator, exchange.terms,
                             exchange.partner_lag, exchange.clip_factor});
    if (!exchange.unanswered) context_.conduct.completed(exchange.key.responder.id);
  } else if (exchange.active) {
    ++context_.stats.exchanges_failed;
  }
  offer_timers_.clear(exchange.key);
  const ExchangeKey key = exchange.key;
  open_.erase(key);
}

void Initiator::on_delta(Instant now, PeerId from, const StripeRef& ref) {
  if (!speaks_for(now, from, ref.exchange)) return;
  const auto found = stripes_.find(stripe_key(ref));
  const bool awaited = found != stripes_.end() && found->second.machine.state() == State::kSent &&
                       found->second.machine.attempt() == ref.attempt;
  context_.note_payload(now, from, awaited);
  if (awaited) note_progress(now, found->first);
  drive(now, ref, Input::kDelta);
}

// A stripe is answered: the partner's pace is known better, and everything else of the exchange
// gets its patience anew.
void Initiator::note_progress(Instant now, const StripeRef& key) {
  const PeerId partner = key.exchange.responder.id;
  Exchange& exchange = open_.at(key.exchange);
  Stripe& answered = stripes_.at(key);
  context_.paces.on_payload(
      now, partner, answered.payload_bytes,
      {.sent = answered.sent_at, .before = exchange.progress_at, .answered = now});
  exchange.progress_at = now;
  for (auto item = stripes_.lower_bound(StripeRef{key.exchange, key.fragment, 0, 0});
       item != stripes_.end() && item->first.exchange == key.exchange; ++item) {
    Stripe& stripe = item->second;
    stripe.failures = 0;
    if (stripe.machine.state() != State::kSent || stripe.resuming) continue;
    stripe_timers_.set(item->first, now + patience(now, partner, stripe.payload_bytes));
  }
}

void Initiator::on_committed(Instant now, PeerId from, const StripeRef& ref) {
  if (speaks_for(now, from, ref.exchange)) drive(now, ref, Input::kCommitted);
}

void Initiator::on_abandoned(Instant now, PeerId from, const Abandoned& message) {
  if (!speaks_for(now, from, message.ref.exchange)) return;
  const bool known = stripes_.count(stripe_key(message.ref)) != 0;
  if (known) context_.note_rejection(from, message.reason);
  drive(now, message.ref, Input::kAbandoned);
}

void Initiator::on_query(Instant now, PeerId from, const StripeRef& ref) {
  if (speaks_for(now, from, ref.exchange)) drive(now, ref, Input::kQuery);
}

void Initiator::on_encoded(Instant now, const StripeRef& ref, const Verdict& verdict,
                           std::size_t payload_bytes) {
  const auto found = stripes_.find(stripe_key(ref));
  if (found != stripes_.end() && verdict.done()) {
    found->second.payload_bytes = payload_bytes;
    std::size_t& largest = payload_[ref.fragment.value];
    largest = std::max(largest, payload_bytes);
  }
  drive(now, ref, verdict.done() ? Input::kEncoded : Input::kEncodeFailed, verdict.reason);
}

void Initiator::on_applied(Instant now, const StripeRef& ref, const Verdict& verdict) {
  const PeerId partner = ref.exchange.responder.id;
  const auto found = stripes_.find(stripe_key(ref));
  if (verdict.far && found != stripes_.end()) {
    context_.note_far(now, partner, found->second.terms);
  }
  if (verdict.done()) {
    const auto exchange = open_.find(ref.exchange);
    if (exchange != open_.end()) {
      exchange->second.clip_factor = std::min(exchange->second.clip_factor, verdict.clip_factor);
    }
    drive(now, ref, Input::kApplyDone);
    return;
  }
  context_.reject(now, partner, verdict.reason);
  // The same again would be turned down again, unless it just came at a bad moment.
  const bool bad_moment =
      verdict.reason == RejectReason::kNoRoom || verdict.reason == RejectReason::kTooOld;
  const bool again = found != stripes_.end() && bad_moment &&
                     ++found->second.failures < context_.config.attempts_max;
  if (!again) drive(now, ref, Input::kClose);
  drive(now, ref, Input::kApplyFailed, verdict.reason);
}

void Initiator::on_compensated(Instant now, const StripeRef& ref) {
  drive(now, ref, Input::kCompensateDone);
}

bool Initiator::speaks_for(Instant now, PeerId from, const ExchangeKey& key) {
  if (key.initiator.id == context_.self.id && key.responder.id == from) return true;
  context_.reject(now, from, RejectReason::kWrongName);
  return false;
}

void Initiator::drive(Instant now, const StripeRef& ref, Input input, RejectReason reason) {
  const auto found = stripes_.find(stripe_key(ref));
  if (found == stripes_.end()) {
    InitiatorStripe unknown = InitiatorStripe::unknown();
    perform(unknown.apply(input, ref.attempt), ref, Stripe{unknown}, reason);
    return;
  }
  Stripe& stripe = found->second;
  const State before = stripe.machine.state();
  const std::uint8_t attempt_before = stripe.machine.attempt();
  const Output output = stripe.machine.apply(input, ref.attempt);
  StripeRef about = ref;
  if (output == Output::kEncode) about.attempt = stripe.machine.attempt();
  perform(output, about, stripe, reason);
  const bool moved = stripe.machine.state() != before || stripe.machine.attempt() != attempt_before;
  if (moved) follow(now, found->first, stripe, before);
}

void Initiator::perform(Output output, const StripeRef& ref, const Stripe& stripe,
                        RejectReason reason) {
  const PeerId partner = ref.exchange.responder.id;
  switch (output) {
    case Output::kNothing: return;
    case Output::kEncode: context_.emit(EncodeStripe{ref, stripe.format}); return;
    case Output::kPush: context_.send_payload(partner, Push{ref}); return;
    case Output::kApply: context_.emit(ApplyDelta{ref, stripe.terms, stripe.format}); return;
    case Output::kCommit:
      if (context_.peers.is_welcome(partner)) context_.send(partner, Commit{ref});
      return;
    case Output::kAbort:
      if (context_.peers.is_welcome(partner)) context_.send(partner, Abort{ref, reason});
      return;
    case Output::kResend: context_.send(partner, Resend{ref}); return;
    case Output::kCompensate: context_.emit(Compensate{ref}); return;
    case Output::kForget: context_.emit(ForgetDelta{ref}); return;
  }
}

// A stripe has moved: timers, its exchange, counters, and its end.
void Initiator::follow(Instant now, const StripeRef& key_ref, Stripe& stripe, State before) {
  const StripeRef key = key_ref;
  const auto found = open_.find(key.exchange);
  Exchange* exchange = found == open_.end() ? nullptr : &found->second;
  const State state = stripe.machine.state();
  wait(now, key, stripe, before);
  note_owed(key.exchange.responder.id, before, state);
  if (before == State::kApplying && state == State::kApplied) {
    ++context_.stats.stripes_applied;
    if (exchange != nullptr) {
      ++exchange->applied;
      ++exchange->answered;
      stripe.answered = true;
    }
  }
  if (state == State::kCompensating && stripe.leased && exchange != nullptr) --exchange->applied;
  const bool silent = before == State::kSent && state == State::kDropped;
  if (stripe.machine.ended()) settle(key, stripe);  // `stripe` is gone
  if (exchange == nullptr) return;
  const bool given_up = silent && exchange->timed_out;
  if (given_up) {
    close(now, key.exchange, Outcome::kTimedOut);
  } else {
    advance(now, key.exchange);
  }
}

void Initiator::note_owed(PeerId partner, State before, State state) {
  if ((before == State::kApplied) == (state == State::kApplied)) return;
  std::uint32_t& owed = owed_[partner];
  owed = state == State::kApplied ? owed + 1 : owed - 1;
  if (owed == 0) owed_.erase(partner);
}

void Initiator::wait(Instant now, const StripeRef& key, Stripe& stripe, State before) {
  const GossipConfig& config = context_.config;
  const PeerId partner = key.exchange.responder.id;
  const State state = stripe.machine.state();
  stripe_timers_.clear(key);
  if (state == State::kSent) {
    stripe.sent_at = now;
    stripe.unsure = false;
    stripe.resuming = false;
    // Each failure in a row makes the next wait longer: the line may have become slow.
    const Duration once = patience(now, partner, stripe.payload_bytes);
    stripe_timers_.set(key,
                       now + std::min<Duration>(once * (1 << std::min<int>(stripe.failures, 10)),
                                                std::max(once, config.stripe_timeout)));
  }
  if (state == State::kApplied && before != State::kApplied) {
    const auto answer = context_.paces.of(now, partner).answer_within();
    stripe.retry = std::clamp<Duration>(answer.value_or(config.commit_retry), config.commit_retry,
                                        kCommitRetryMax);
    stripe.detach_at = now + patience(now, partner, stripe.payload_bytes);
    stripe.gives_up_at = now + config.initiator_gives_up;
    stripe_timers_.set(key, now + stripe.retry);
  }
}

// `measured`, kept between the shortest silence that means anything and the longest.
Duration Initiator::within(std::optional<Duration> measured, Duration longest) const {
  const Duration shortest = std::min(context_.config.silence_min, longest);
  return std::clamp<Duration>(measured.value_or(longest), shortest, longest);
}

// How long a payload of that size may go without an answer.
Duration Initiator::patience(Instant now, PeerId partner, std::size_t payload_bytes) {
  const Duration longest = context_.config.stripe_timeout;
  if (payload_bytes == 0) return longest;  // not known yet
  return within(context_.paces.payload_within(now, partner, payload_bytes), longest);
}

// No more at once than fills the line for a while: on a slow one the rest would only make others
// wait, and a new partner's line may be slow.
std::uint16_t Initiator::window_now(Instant now, const Exchange& exchange) {
  const std::size_t bytes = payload_[exchange.round.fragment.value];
  if (bytes == 0) return 1;  // not known yet
  const PeerPace& pace = context_.paces.of(now, exchange.key.responder.id);
  return std::min(exchange.window, pace.payloads_under_way(bytes, kAhead));
}

void Initiator::detach(const StripeRef& key, Stripe& stripe) {
  if (!stripe.leased) return;
  stripe.leased = false;
  Exchange& exchange = open_.at(key.exchange);
  --exchange.under_way;
  if (stripe.answered) --exchange.answered;
}

void Initiator::settle(const StripeRef& key, Stripe& stripe) {
  switch (stripe.machine.state()) {
    case State::kCompensated: ++context_.stats.stripes_compensated; break;
    case State::kOrphaned: ++context_.stats.stripes_orphaned; break;
    case State::kDropped: ++context_.stats.stripes_abandoned; break;
    default: break;
  }
  detach(key, stripe);
  stripe_timers_.clear(key);
  stripes_.erase(key);
}

void Initiator::on_silence(Instant now, const StripeRef& ref, Stripe& stripe) {
  if (stripe.resuming) {
    ++context_.stats.attempts_resumed;
    drive(now, ref, Input::kSilence);
    return;
  }
  ++context_.stats.attempts_fenced;
  context_.doubt_relay(ref.exchange.responder.id, stripe.sent_at);
  if (++stripe.failures < context_.config.attempts_max) {
    // Also where the connection broke: nothing else may ever tell that it is back.
    drive(now, ref, Input::kSilence);
    return;
  }
  // The last attempt ran out: the partner does not answer, so neither would it for other stripes.
  Exchange& exchange = open_.at(ref.exchange);
  exchange.timed_out = true;
  if (!stripe.unsure) blame(now, ref.exchange.responder.id, exchange, stripe);
  drive(now, ref, Input::kClose);
}

void Initiator::blame(Instant now, PeerId partner, const Exchange& exchange, const Stripe& stripe) {
  context_.paces.on_silence(now, partner, stripe.payload_bytes, now - exchange.progress_at);
  context_.conduct.doubt(now, partner);
  context_.note_silence(now, partner, exchange.progress_at);
}

void Initiator::on_timer(Instant now, const StripeRef& key) {
  const auto found = stripes_.find(key);
  if (found == stripes_.end()) return;  // closed by an earlier timer of the same call
  Stripe& stripe = found->second;
  StripeRef ref = key;
  ref.attempt = stripe.machine.attempt();
  if (stripe.machine.state() == State::kSent) {
    on_silence(now, ref, stripe);
    return;
  }
  if (stripe.machine.state() != State::kApplied) return;
  if (now >= stripe.gives_up_at) {
    drive(now, ref, Input::kGiveUp);
    return;
  }
  drive(now, ref, Input::kRepeat);
  stripe.retry = std::min<Duration>(stripe.retry * 2, kCommitRetryMax);
  stripe_timers_.set(key, std::min(now + stripe.retry, stripe.gives_up_at));
  if (!stripe.leased || now < stripe.detach_at) return;
  Exchange& exchange = open_.at(key.exchange);
  if (!std::exchange(exchange.unanswered, true)) {
    context_.note_silence(now, key.exchange.responder.id, stripe.sent_at);
  }
  detach(key, stripe);
  advance(now, key.exchange);
}

}  // namespace starling::gossip
