// Initiator, second half: the stripes of accepted exchanges.
#include <algorithm>

#include "gossip/initiator.h"

namespace starling::gossip {
namespace {

StripeRef stripe_key(StripeRef ref) {
  ref.attempt = 0;
  return ref;
}

}  // namespace

// Starts stripes while the window is open; ends the exchange when none is left.
void Initiator::advance(Instant now, const ExchangeKey& key) {
  const auto found = open_.find(key);
  if (found == open_.end() || !found->second.active) return;
  Exchange& exchange = found->second;
  const std::uint32_t total = exchange.offer.stripes;
  while (exchange.next_stripe < total && exchange.under_way < exchange.window &&
         stripes_.size() < kStripesMax) {
    const StripeRef ref{key, exchange.fragment, exchange.next_stripe++, 0};
    Stripe stripe{InitiatorStripe(context_.config.attempts_max)};
    stripe.format = exchange.format;
    stripe.terms = exchange.terms;
    stripe.leased = true;
    ++exchange.under_way;
    stripes_.emplace(ref, stripe);
    context_.emit(EncodeStripe{ref, exchange.format});
  }
  const bool stuck = exchange.next_stripe < total && stripes_.size() >= kStripesMax;
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
  for (auto item = stripes_.lower_bound(StripeRef{key, exchange.fragment, 0, 0});
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
  context_.leases.release(exchange.fragment);
  context_.emit(
      ExchangeEnded{exchange.key, exchange.fragment, Role::kInitiator, outcome, exchange.applied});
  if (outcome == Outcome::kCompleted) {
    ++context_.stats.exchanges_completed;
    context_.newcomer.on_completed(exchange.fragment, exchange.terms.responder_weight);
  } else if (exchange.active) {
    ++context_.stats.exchanges_failed;
  }
  offer_timers_.clear(exchange.key);
  const ExchangeKey key = exchange.key;
  open_.erase(key);
}

void Initiator::on_delta(Instant now, PeerId from, const StripeRef& ref) {
  if (speaks_for(from, ref.exchange)) drive(now, ref, Input::kDelta);
}

void Initiator::on_committed(Instant now, PeerId from, const StripeRef& ref) {
  if (speaks_for(from, ref.exchange)) drive(now, ref, Input::kCommitted);
}

void Initiator::on_abandoned(Instant now, PeerId from, const StripeRef& ref) {
  if (speaks_for(from, ref.exchange)) drive(now, ref, Input::kAbandoned);
}

void Initiator::on_query(Instant now, PeerId from, const StripeRef& ref) {
  if (speaks_for(from, ref.exchange)) drive(now, ref, Input::kQuery);
}

void Initiator::on_encoded(Instant now, const StripeRef& ref, bool ok) {
  drive(now, ref, ok ? Input::kEncoded : Input::kEncodeFailed);
}

void Initiator::on_applied(Instant now, const StripeRef& ref, bool ok) {
  drive(now, ref, ok ? Input::kApplyDone : Input::kApplyFailed);
}

void Initiator::on_compensated(Instant now, const StripeRef& ref) {
  drive(now, ref, Input::kCompensateDone);
}

bool Initiator::speaks_for(PeerId from, const ExchangeKey& key) {
  if (key.initiator.id == context_.self.id && key.responder.id == from) return true;
  context_.refuse_message();
  return false;
}

void Initiator::drive(Instant now, const StripeRef& ref, Input input) {
  const auto found = stripes_.find(stripe_key(ref));
  if (found == stripes_.end()) {
    InitiatorStripe unknown = InitiatorStripe::unknown();
    perform(unknown.apply(input, ref.attempt), ref, Stripe{unknown});
    return;
  }
  Stripe& stripe = found->second;
  const State before = stripe.machine.state();
  const std::uint8_t attempt_before = stripe.machine.attempt();
  const Output output = stripe.machine.apply(input, ref.attempt);
  StripeRef about = ref;
  if (output == Output::kEncode) about.attempt = stripe.machine.attempt();
  perform(output, about, stripe);
  const bool moved = stripe.machine.state() != before || stripe.machine.attempt() != attempt_before;
  if (moved) follow(now, found->first, stripe, before);
}

void Initiator::perform(Output output, const StripeRef& ref, const Stripe& stripe) {
  const PeerId partner = ref.exchange.responder.id;
  switch (output) {
    case Output::kNothing: return;
    case Output::kEncode: context_.emit(EncodeStripe{ref, stripe.format}); return;
    case Output::kPush: context_.emit(SendPayload{partner, Push{ref}}); return;
    case Output::kApply: context_.emit(ApplyDelta{ref, stripe.terms}); return;
    case Output::kCommit:
      if (context_.peers.is_welcome(partner)) context_.send(partner, Commit{ref});
      return;
    case Output::kAbort:
      if (context_.peers.is_welcome(partner)) context_.send(partner, Abort{ref});
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
  if (before == State::kApplying && state == State::kApplied) {
    ++context_.stats.stripes_applied;
    if (exchange != nullptr) ++exchange->applied;
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

void Initiator::wait(Instant now, const StripeRef& key, Stripe& stripe, State before) {
  const GossipConfig& config = context_.config;
  const State state = stripe.machine.state();
  stripe_timers_.clear(key);
  if (state == State::kSent) stripe_timers_.set(key, now + config.stripe_timeout);
  if (state == State::kApplied && before != State::kApplied) {
    stripe.retry = config.commit_retry;
    stripe.detach_at = now + config.stripe_timeout;
    stripe.gives_up_at = now + config.initiator_gives_up;
    stripe_timers_.set(key, now + stripe.retry);
  }
}

void Initiator::detach(const StripeRef& key, Stripe& stripe) {
  if (!stripe.leased) return;
  stripe.leased = false;
  --open_.at(key.exchange).under_way;
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

void Initiator::on_timer(Instant now, const StripeRef& key) {
  const auto found = stripes_.find(key);
  if (found == stripes_.end()) return;  // closed by an earlier timer of the same call
  Stripe& stripe = found->second;
  StripeRef ref = key;
  ref.attempt = stripe.machine.attempt();
  if (stripe.machine.state() == State::kSent) {
    const auto exchange = open_.find(key.exchange);
    // The last attempt ran out: the partner does not answer, so neither would it for other stripes.
    const bool last = ref.attempt + 1 >= context_.config.attempts_max;
    if (exchange != open_.end() && last) exchange->second.timed_out = true;
    drive(now, ref, Input::kSilence);
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
  detach(key, stripe);
  advance(now, key.exchange);
}

}  // namespace starling::gossip
