#include "gossip/initiator.h"

#include <algorithm>

namespace starling::gossip {

Initiator::Initiator(CoreContext& context, const RestoredState& restored, Instant now)
    : context_(context),
      sampler_(context.config.locality),
      last_partners_(context.stripes.size()),
      payload_(context.stripes.size(), 0) {
  for (const LedgerRow& row : restored.ledger) {
    const bool ours =
        row.role == Role::kInitiator && row.ref.exchange.initiator.id == context_.self.id;
    if (!ours || stripes_.size() >= Ledger::kInitiatorRowsMax) continue;
    const StripeRef key = stripe_key(row.ref);
    Stripe stripe{InitiatorStripe::restored(row.ref.attempt)};
    stripe.retry = context_.config.commit_retry;
    stripe.gives_up_at = now + context_.config.initiator_gives_up;
    stripes_.emplace(key, stripe);
    ++owed_[key.exchange.responder.id];
    stripe_timers_.set(key, now + stripe.retry);
  }
}

void Initiator::on_send_failed(Instant now, PeerId to) {
  for (const auto& [key, exchange] : open_) {
    if (exchange.active || key.responder.id != to) continue;
    offer_timers_.set(key, now);  // as if it had timed out, at the next deadline
  }
  for (auto& [key, stripe] : stripes_) {
    if (key.exchange.responder.id != to || stripe.machine.state() != State::kSent) continue;
    stripe.unsure = true;
    broken_.insert(to);
  }
}

// The connection is back. What was under way when it broke may be lost: it is fenced and repeated,
// not more often than once in kResumePause, for the other direction may be broken still.
void Initiator::on_heard(Instant now, PeerId from) {
  if (broken_.erase(from) == 0) return;
  for (auto& [key, stripe] : stripes_) {
    if (key.exchange.responder.id != from || stripe.machine.state() != State::kSent) continue;
    if (!stripe.unsure) continue;
    stripe.unsure = false;
    stripe.resuming = true;
    stripe_timers_.set(key, std::max(now, stripe.sent_at + CoreContext::kResumePause));
  }
}

void Initiator::on_muted(Instant now, PeerId peer) {
  std::vector<ExchangeKey> over;
  for (const auto& [key, exchange] : open_) {
    if (key.responder.id == peer) over.push_back(key);
  }
  for (const ExchangeKey& key : over) {
    open_.at(key).active ? close(now, key, Outcome::kAborted)
                         : end_offer(now, key, Outcome::kAborted);
  }
}

void Initiator::on_peer_lost(Instant now, PeerId peer) {
  broken_.erase(peer);
  std::vector<ExchangeKey> over;
  for (const auto& [key, exchange] : open_) {
    if (key.responder.id == peer) over.push_back(key);
  }
  for (const ExchangeKey& key : over) {
    if (open_.at(key).active) {
      close(now, key, Outcome::kPeerLost);
    } else {
      ++context_.stats.offers_timed_out;
      end_offer(now, key, Outcome::kPeerLost);
    }
  }
}

void Initiator::on_peer_found(Instant now, PeerId peer) {
  for (auto& [key, stripe] : stripes_) {
    if (key.exchange.responder.id != peer || stripe.machine.state() != State::kApplied) continue;
    stripe.retry = context_.config.commit_retry;
    stripe_timers_.set(key, now);
  }
}

void Initiator::on_deadline(Instant now) {
  while (pause_timers_.pop_due(now)) continue;  // start_pending() sees to their rounds
  // Only what is due at the call: a timer set meanwhile for `now` waits for the next one.
  std::vector<ExchangeKey> offers;
  while (const auto key = offer_timers_.pop_due(now)) offers.push_back(*key);
  for (const ExchangeKey& key : offers) {
    ++context_.stats.offers_timed_out;
    context_.send(key.responder.id, Finish{key});
    const Instant offered_at = open_.at(key).offered_at;
    context_.note_silence(now, key.responder.id, offered_at);
    Peer* partner = context_.peers.find(key.responder.id);
    if (partner != nullptr) partner->unanswered = partner->last_heard < offered_at;
    end_offer(now, key, Outcome::kTimedOut);
  }
  std::vector<StripeRef> due;
  while (const auto key = stripe_timers_.pop_due(now)) due.push_back(*key);
  for (const StripeRef& key : due) on_timer(now, key);
}

void Initiator::abandon_all() {
  while (!open_.empty()) {
    const Exchange exchange = open_.begin()->second;
    end(exchange, Outcome::kAborted);
  }
  for (auto& [key, stripe] : stripes_) stripe.leased = false;
  pending_.clear();
  pause_timers_ = {};
}

void Initiator::shift(Duration by) {
  pause_timers_.shift(by);
  offer_timers_.shift(by);
  stripe_timers_.shift(by);
  for (auto& [key, stripe] : stripes_) {
    stripe.sent_at += by;
    stripe.detach_at += by;
    stripe.gives_up_at += by;
  }
  for (auto& [key, exchange] : open_) {
    exchange.offered_at += by;
    exchange.progress_at += by;
  }
}

std::optional<Instant> Initiator::next_deadline() const {
  std::optional<Instant> next = pause_timers_.next();
  for (const auto& other : {offer_timers_.next(), stripe_timers_.next()}) {
    if (other) next = std::min(next.value_or(*other), *other);
  }
  return next;
}

bool Initiator::involves(PeerId peer) const {
  return std::any_of(open_.begin(), open_.end(),
                     [peer](const auto& item) { return item.first.responder.id == peer; });
}

std::size_t Initiator::unsettled() const {
  return static_cast<std::size_t>(
      std::count_if(stripes_.begin(), stripes_.end(), [](const auto& item) {
        const State state = item.second.machine.state();
        return state == State::kApplied || state == State::kCompensating;
      }));
}

void Initiator::assert_invariants() const {
  STARLING_ASSERT(open_.size() <= context_.config.initiated_max);
  STARLING_ASSERT(pending_.size() <= context_.stripes.size());
  STARLING_ASSERT(stripes_.size() <= Ledger::kInitiatorRowsMax);
  std::map<ExchangeKey, std::uint32_t> under_way;
  std::map<PeerId, std::uint32_t> owed;
  for (const auto& [key, stripe] : stripes_) {
    STARLING_ASSERT(!stripe.machine.ended());
    if (stripe.leased) ++under_way[key.exchange];
    const State state = stripe.machine.state();
    if (state == State::kApplied) ++owed[key.exchange.responder.id];
    const bool timed = state == State::kSent || state == State::kApplied;
    STARLING_ASSERT(timed == stripe_timers_.contains(key));
  }
  for (const auto& [key, exchange] : open_) {
    STARLING_ASSERT(context_.leases.held(exchange.round.fragment));
    STARLING_ASSERT(exchange.under_way == under_way[key]);
    STARLING_ASSERT(exchange.under_way <= 2U * exchange.window);
    STARLING_ASSERT(exchange.answered <= exchange.under_way);
    STARLING_ASSERT(exchange.under_way - exchange.answered <= exchange.window);
    STARLING_ASSERT(exchange.active != offer_timers_.contains(key));
    under_way.erase(key);
  }
  for (const auto& [key, count] : under_way) STARLING_ASSERT(count == 0);
  STARLING_ASSERT(owed == owed_);
}

}  // namespace starling::gossip
