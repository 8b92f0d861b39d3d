// What a Responder does with stripes, with and without a lease.
#include <algorithm>
#include <utility>
#include <vector>

#include "gossip/responder.h"

namespace starling::gossip {
namespace {

bool is_unsettled(ResponderStripe::State state) {
  using State = ResponderStripe::State;
  return state == State::kStaging || state == State::kStaged || state == State::kApplying;
}

}  // namespace

void Responder::drive(Instant now, const StripeRef& ref, Input input, RejectReason reason) {
  const StripeRef key = stripe_key(ref);
  const auto found = stripes_.find(key);
  if (found == stripes_.end()) {
    drive_unknown(ref, input);
    return;
  }
  Stripe& stripe = found->second;
  const ResponderStripe before = stripe.machine;
  const ResponderStripe::Step step = stripe.machine.apply(input, ref.attempt);
  if (step.output == Output::kReissue && !may_reissue(now, stripe)) {
    context_.refuse_message();
    return;
  }
  perform(step, ref, stripe, reason);
  if (stripe.machine != before) follow(now, key, stripe, before.state());
}

// Nothing is under way for the stripe: the ledger knows the answer, or nobody does.
void Responder::drive_unknown(const StripeRef& ref, Input input) {
  const bool applied = applied_.contains({ref, Role::kResponder});
  if (!applied && applied_.may_have_forgotten(ref)) {
    context_.refuse_message();  // silence: the initiator counts an orphan, which is the truth
    return;
  }
  auto remembered = ResponderStripe::remembered(applied, ref.attempt);
  perform(remembered.apply(input, ref.attempt), ref, {}, RejectReason::kNone);
}

void Responder::perform(const ResponderStripe::Step& step, StripeRef ref, const Stripe& stripe,
                        RejectReason reason) {
  const PeerId partner = ref.exchange.initiator.id;
  if (step.drop) {
    ref.attempt = step.dropped;
    context_.emit(DropStaged{ref});
  }
  ref.attempt = step.attempt;
  switch (step.output) {
    case Output::kNothing: return;
    case Output::kStage: context_.emit(StageDelta{ref, stripe.terms, stripe.format}); return;
    case Output::kReissue: context_.emit(ReissueDelta{ref}); return;
    case Output::kSendDelta: context_.send_payload(partner, Delta{ref}); return;
    case Output::kApply: context_.emit(ApplyStaged{ref}); return;
    case Output::kCommitted:
      if (context_.peers.is_welcome(partner)) context_.send(partner, Committed{ref});
      return;
    case Output::kAbandoned:
      if (context_.peers.is_welcome(partner)) context_.send(partner, Abandoned{ref, reason});
      return;
    case Output::kQuery:
      if (context_.peers.is_welcome(partner)) context_.send(partner, Query{ref});
      return;
  }
}

// Whoever asks pays with a few bytes, and the answer is a payload in a slot. The delta is on its
// way, or it was sent just now: asked again later, it is made again.
bool Responder::may_reissue(Instant now, Stripe& stripe) {
  if (stripe.reissuing || now < stripe.reissue_again) return false;
  stripe.reissuing = true;
  return true;
}

// A stripe has moved: timers, its lease, counters, and its end.
void Responder::follow(Instant now, const StripeRef& key, Stripe& stripe, State before) {
  const GossipConfig& config = context_.config;
  const State state = stripe.machine.state();
  const auto found = open_.find(key.exchange);
  Lease* lease = found == open_.end() ? nullptr : &found->second;
  if (lease != nullptr && is_unsettled(before)) --lease->unsettled;
  if (lease != nullptr && is_unsettled(state)) ++lease->unsettled;
  const bool settled = before == State::kApplying;
  const bool progress = is_progress(stripe);
  if (lease != nullptr && settled) lease->ends_at += lease->silence_max;
  if (lease != nullptr && (settled || progress)) touch(now, key.exchange);
  stripe_timers_.clear(key);
  if (state == State::kStaged) {
    stripe.retry = query_delay(now, key.exchange.initiator.id, stripe.payload_bytes);
    stripe.gives_up_at = now + config.responder_gives_up;
    stripe_timers_.set(key, now + stripe.retry);
  }
  const bool fell = is_unsettled(before) && (state == State::kWaiting || state == State::kDropped);
  if (fell) ++context_.stats.stripes_abandoned;
  if (state == State::kApplied) {
    ++context_.stats.stripes_applied;
    if (lease != nullptr) ++lease->applied;
    StripeRef ref = key;
    ref.attempt = stripe.machine.attempt();
    // Full of rows only in a hostile world; then a repeated Commit finds silence.
    if (!applied_.record({ref, Role::kResponder})) context_.refuse_message();
  }
  if (lease == nullptr && !is_unsettled(state)) stripes_.erase(key);
}

// What only comes and goes, attempt after attempt, brings an exchange no further.
bool Responder::is_progress(Stripe& stripe) {
  const State state = stripe.machine.state();
  if (state == State::kDropped || state <= stripe.furthest) return false;
  stripe.furthest = state;
  return true;
}

void Responder::on_send_failed(PeerId to) {
  if (!context_.peers.is_welcome(to)) return;  // it is lost, and may never be heard again
  for (auto& [key, stripe] : stripes_) {
    if (key.exchange.initiator.id != to || stripe.machine.state() != State::kStaged) continue;
    stripe.unsure = true;
    broken_.insert(to);
  }
}

// The connection is back: what may be lost is sent again, but for what went out just now.
void Responder::on_heard(Instant now, PeerId from) {
  if (broken_.count(from) == 0) return;
  bool all = true;
  std::vector<StripeRef> again;
  for (auto& [key, stripe] : stripes_) {
    if (key.exchange.initiator.id != from || stripe.machine.state() != State::kStaged) continue;
    if (!stripe.unsure) continue;
    if (now - stripe.sent_at < CoreContext::kResumePause) {
      all = false;
      continue;
    }
    stripe.unsure = false;
    again.push_back(key);
    again.back().attempt = stripe.machine.attempt();
  }
  if (all) broken_.erase(from);
  for (const StripeRef& ref : again) drive(now, ref, Input::kResend);
}

void Responder::note_clipped(const ExchangeKey& key, float clip_factor) {
  const auto lease = open_.find(key);
  if (lease == open_.end()) return;
  lease->second.clip_factor = std::min(lease->second.clip_factor, clip_factor);
}

// A delta was answered: the partner's pace is known better.
void Responder::note_progress(Instant now, const StripeRef& ref) {
  const auto lease = open_.find(ref.exchange);
  const auto found = stripes_.find(stripe_key(ref));
  if (lease == open_.end() || found == stripes_.end()) return;
  const Stripe& stripe = found->second;
  if (stripe.machine.state() != State::kStaged || stripe.machine.attempt() != ref.attempt) return;
  if (!stripe.repeated) {
    context_.paces.on_payload(
        now, ref.exchange.initiator.id, stripe.payload_bytes,
        {.sent = stripe.sent_at, .before = lease->second.progress_at, .answered = now});
  }
  lease->second.progress_at = now;
}

// A delta on a slow line takes its time; asking for it earlier would send it twice.
Duration Responder::query_delay(Instant now, PeerId partner, std::size_t payload_bytes) {
  const GossipConfig& config = context_.config;
  const Duration usual = context_.paces.payload_within(now, partner, payload_bytes);
  const Duration longest = std::max(config.query_after, config.stripe_timeout);
  return std::clamp<Duration>(usual, config.query_after, longest);
}

void Responder::on_deadline(Instant now) {
  while (const auto key = lease_timers_.pop_due(now)) on_lease_timer(now, *key);
  std::vector<StripeRef> due;
  while (const auto key = stripe_timers_.pop_due(now)) due.push_back(*key);
  for (const StripeRef& key : due) on_timer(now, key);
}

void Responder::on_timer(Instant now, const StripeRef& key) {
  const auto found = stripes_.find(key);
  if (found == stripes_.end()) return;
  Stripe& stripe = found->second;
  StripeRef ref = key;
  ref.attempt = stripe.machine.attempt();
  if (now >= stripe.gives_up_at) {
    drive(now, ref, Input::kGiveUp);
    return;
  }
  context_.doubt_relay(key.exchange.initiator.id, stripe.sent_at);
  drive(now, ref, Input::kAsk);
  stripe.retry = std::min<Duration>(stripe.retry * 2, kQueryMax);
  stripe_timers_.set(key, std::min(now + stripe.retry, stripe.gives_up_at));
}

// Keeps what is in doubt without a lease within its limit.
void Responder::drop_oldest_staged(Instant now) {
  std::vector<std::pair<Instant, StripeRef>> staged;
  for (const auto& [key, stripe] : stripes_) {
    if (stripe.machine.state() != State::kStaged || open_.count(key.exchange) != 0) continue;
    StripeRef ref = key;
    ref.attempt = stripe.machine.attempt();
    staged.emplace_back(stripe.gives_up_at, ref);
  }
  const std::size_t most = std::min(kStagedMax, context_.in_doubt);
  if (staged.size() <= most) return;
  std::sort(staged.begin(), staged.end());
  staged.resize(staged.size() - most);
  for (const auto& [due, ref] : staged) drive(now, ref, Input::kGiveUp);
}

// What is in doubt is given up on time even after a pause: the initiator counts on that.
void Responder::shift(Duration by) {
  lease_timers_.shift(by);
  for (auto& [key, lease] : open_) {
    lease.begun += by;
    lease.progress_at += by;
    lease.ends_at += by;
    lease.gives_up_at += by;
  }
  for (auto& [key, stripe] : stripes_) stripe.sent_at += by;
}

}  // namespace starling::gossip
