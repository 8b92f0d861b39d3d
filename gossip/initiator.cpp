#include "gossip/initiator.h"

#include <algorithm>
#include <cmath>

namespace starling::gossip {
namespace {

constexpr Duration kDeclinedMax = std::chrono::minutes(10);

bool is_fraction(float value) { return std::isfinite(value) && value >= 0 && value <= 1; }

}  // namespace

Initiator::Initiator(CoreContext& context, const RestoredState& restored, Instant now)
    : context_(context) {
  for (const LedgerRow& row : restored.ledger) {
    const bool ours =
        row.role == Role::kInitiator && row.ref.exchange.initiator.id == context_.self.id;
    if (!ours || stripes_.size() >= kStripesMax) continue;
    StripeRef key = row.ref;
    key.attempt = 0;
    Stripe stripe{InitiatorStripe::restored(row.ref.attempt)};
    stripe.retry = context_.config.commit_retry;
    stripe.gives_up_at = now + context_.config.initiator_gives_up;
    stripes_.emplace(key, stripe);
    stripe_timers_.set(key, now + stripe.retry);
  }
}

void Initiator::on_published(FragmentId fragment) {
  const bool waits = std::find(pending_.begin(), pending_.end(), fragment) != pending_.end();
  if (!waits) pending_.push_back(fragment);
}

void Initiator::start_pending(Instant now) {
  for (std::size_t left = pending_.size(); left > 0 && !pending_.empty(); --left) {
    if (!context_.begins_exchanges() || open_.size() >= context_.config.initiated_max) return;
    const FragmentId fragment = pending_.front();
    pending_.pop_front();
    const bool has_company = std::any_of(context_.peers.rows().begin(), context_.peers.rows().end(),
                                         [](const auto& item) { return item.second.welcomed; });
    // Without news of the others' tokens the own weight is not known yet; it is a matter of one
    // round trip.
    const bool later = has_company && !context_.newcomer.decided();
    if (context_.leases.held(fragment) || later) {
      pending_.push_back(fragment);
    } else if (!begin_round(now, fragment)) {
      ++context_.stats.rounds_skipped;
    }
  }
}

bool Initiator::begin_round(Instant now, FragmentId fragment) {
  Exchange exchange;
  exchange.fragment = fragment;
  return offer_next(now, exchange);
}

// Asks the next candidate of the exchange's round. False if nobody is left or allowed.
bool Initiator::offer_next(Instant now, Exchange& exchange) {
  const GossipConfig& config = context_.config;
  if (!context_.begins_exchanges()) return false;
  if (exchange.tried.size() >= config.partners_tried_max) return false;
  if (stripes_.size() >= kStripesMax) return false;  // settle some first
  const auto partner = sampler_.sample(now, context_.peers, exchange.tried, context_.rng);
  if (!partner) return false;
  exchange.tried.push_back(*partner);
  exchange.key = {context_.self, *context_.peers.process(*partner), next_counter_++};
  const FragmentState& state = context_.fragments[exchange.fragment.value];
  exchange.offer = {exchange.key,  exchange.fragment, context_.stripes[exchange.fragment.value],
                    config.format, state.cold,        context_.newcomer.weight(),
                    config.mixing, state.clip_radius};
  context_.leases.take(exchange.fragment);
  context_.send(*partner, exchange.offer);
  ++context_.stats.offers_sent;
  offer_timers_.set(exchange.key, now + config.offer_timeout);
  open_.emplace(exchange.key, exchange);
  return true;
}

// An offer came to nothing: on to the next candidate.
void Initiator::end_offer(Instant now, const ExchangeKey& key, Outcome outcome) {
  Exchange exchange = open_.at(key);
  STARLING_ASSERT(!exchange.active);
  end(exchange, outcome);
  if (!offer_next(now, exchange)) ++context_.stats.rounds_skipped;
}

void Initiator::on_accept(Instant now, PeerId from, const Accept& accept) {
  if (!speaks_for(from, accept.exchange)) return;
  const auto found = open_.find(accept.exchange);
  if (found == open_.end()) {  // too late: free its lease
    context_.send(from, Finish{accept.exchange});
    return;
  }
  Exchange& exchange = found->second;
  if (exchange.active) return;
  if (!is_valid(exchange, accept)) {
    context_.refuse_message();
    context_.send(from, Finish{accept.exchange});
    end_offer(now, accept.exchange, Outcome::kAborted);
    return;
  }
  ++context_.stats.offers_accepted;
  offer_timers_.clear(exchange.key);
  sampler_.remember_partner(from);
  exchange.active = true;
  exchange.format = accept.format;
  exchange.window = std::min(accept.window, context_.config.window);
  exchange.terms = {accept.mixing, exchange.offer.weight, accept.weight, accept.clip_radius};
  advance(now, accept.exchange);
}

bool Initiator::is_valid(const Exchange& exchange, const Accept& accept) const {
  const GossipConfig& config = context_.config;
  const bool known_format = accept.format == config.cold_format ||
                            (accept.format == config.format && !exchange.offer.cold);
  const bool known_terms = is_fraction(accept.weight) && is_fraction(accept.mixing) &&
                           accept.mixing <= exchange.offer.mixing &&
                           std::isfinite(accept.clip_radius) && accept.clip_radius >= 0;
  return known_format && known_terms && accept.window > 0;
}

void Initiator::on_decline(Instant now, PeerId from, const Decline& decline) {
  if (!speaks_for(from, decline.exchange)) return;
  const auto found = open_.find(decline.exchange);
  if (found == open_.end()) return;
  if (found->second.active) {  // its lease is gone: what we push is not listened to
    close(now, decline.exchange, Outcome::kTimedOut);
    return;
  }
  ++context_.stats.offers_declined;
  if (Peer* peer = context_.peers.find(from)) {
    const Duration pause = std::chrono::milliseconds(decline.retry_after_ms);
    peer->declined_until = now + std::min(pause, kDeclinedMax);
  }
  end_offer(now, decline.exchange, Outcome::kDeclined);
}

bool Initiator::withdraw_crossing(FragmentId fragment, PeerId peer) {
  if (peer > context_.self.id) return false;
  for (const auto& [key, exchange] : open_) {
    const bool crossing = !exchange.active && exchange.fragment == fragment;
    if (!crossing || key.responder.id != peer) continue;
    const Exchange withdrawn = exchange;
    end(withdrawn, Outcome::kDeclined);
    ++context_.stats.offers_declined;
    // If theirs comes to nothing the round is not lost.
    on_published(fragment);
    return true;
  }
  return false;
}

void Initiator::on_send_failed(Instant now, PeerId to) {
  for (const auto& [key, exchange] : open_) {
    if (exchange.active || key.responder.id != to) continue;
    offer_timers_.set(key, now);  // as if it had timed out, at the next deadline
  }
}

void Initiator::on_peer_lost(Instant now, PeerId peer) {
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
  // Only what is due at the call: a timer set meanwhile for `now` waits for the next one.
  std::vector<ExchangeKey> offers;
  while (const auto key = offer_timers_.pop_due(now)) offers.push_back(*key);
  for (const ExchangeKey& key : offers) {
    ++context_.stats.offers_timed_out;
    context_.send(key.responder.id, Finish{key});
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
}

void Initiator::shift(Duration by) {
  offer_timers_.shift(by);
  stripe_timers_.shift(by);
  for (auto& [key, stripe] : stripes_) {
    stripe.detach_at += by;
    stripe.gives_up_at += by;
  }
}

std::optional<Instant> Initiator::next_deadline() const {
  const auto offer = offer_timers_.next();
  const auto stripe = stripe_timers_.next();
  if (!offer || !stripe) return offer ? offer : stripe;
  return std::min(*offer, *stripe);
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
  STARLING_ASSERT(stripes_.size() <= kStripesMax);
  std::map<ExchangeKey, std::uint32_t> under_way;
  for (const auto& [key, stripe] : stripes_) {
    STARLING_ASSERT(!stripe.machine.ended());
    if (stripe.leased) ++under_way[key.exchange];
    const State state = stripe.machine.state();
    const bool timed = state == State::kSent || state == State::kApplied;
    STARLING_ASSERT(timed == stripe_timers_.contains(key));
  }
  for (const auto& [key, exchange] : open_) {
    STARLING_ASSERT(context_.leases.held(exchange.fragment));
    STARLING_ASSERT(exchange.under_way == under_way[key]);
    STARLING_ASSERT(exchange.under_way <= exchange.window);
    STARLING_ASSERT(exchange.active != offer_timers_.contains(key));
    under_way.erase(key);
  }
  for (const auto& [key, count] : under_way) STARLING_ASSERT(count == 0);
}

}  // namespace starling::gossip
