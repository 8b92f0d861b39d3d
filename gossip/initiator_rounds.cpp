// How an Initiator gets from a published fragment to an accepted offer.
#include <algorithm>

#include "gossip/initiator.h"

namespace starling::gossip {
namespace {

constexpr Duration kDeclinedMax = std::chrono::minutes(10);
constexpr std::size_t kRowsPerDraw = 16;
constexpr Duration kPartnerWaitMax = std::chrono::milliseconds(500);
constexpr std::size_t kShareOfDoubt = 4;  // of the free places, the part that one partner may take

std::uint32_t in_ms(Duration duration) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

void Initiator::on_published(FragmentId fragment) {
  const bool waits = std::any_of(pending_.begin(), pending_.end(),
                                 [&](const Round& round) { return round.fragment == fragment; });
  if (!waits) pending_.push_back({fragment, 0, {}});
}

void Initiator::start_pending(Instant now) {
  for (std::size_t left = pending_.size(); left > 0 && !pending_.empty(); --left) {
    if (!context_.begins_exchanges() || open_.size() >= context_.config.initiated_max) return;
    const Round round = pending_.front();
    pending_.pop_front();
    const bool has_company = !context_.lines.empty();
    // Without news of the others' tokens the own weight is not known yet; it is a matter of one
    // round trip.
    const bool later = has_company && !context_.newcomer.decided();
    const bool pauses = pause_timers_.contains(round.fragment);
    if (context_.leases.held(round.fragment) || later || pauses || wait_for_partner(now, round)) {
      pending_.push_back(round);
    } else if (!offer(now, round)) {
      ++context_.stats.rounds_skipped;
    }
  }
}

// True if everybody has just declined and somebody will soon be worth asking again.
bool Initiator::wait_for_partner(Instant now, const Round& round) {
  if (round.asked >= context_.config.partners_tried_max) return false;
  const auto suits = [&](const Peer& peer) {
    const PeerId id = peer.record.key.id;
    const bool live = peer.welcomed && peer.record.health == Health::kAlive;
    const bool silent =
        std::find(round.silent.begin(), round.silent.end(), id) != round.silent.end();
    return live && !silent && !owes(id) && !peer.unanswered && !context_.conduct.muted(now, id);
  };
  // In a large table a few draws find somebody who can be asked at once.
  for (std::size_t draws = context_.peers.rows().size() / kRowsPerDraw; draws > 0; --draws) {
    const Peer& peer = context_.peers.draw(context_.rng);
    if (suits(peer) && peer.declined_until <= now) return false;
  }
  std::optional<Instant> soonest;
  for (const auto& [id, peer] : context_.peers.rows()) {
    if (!suits(peer)) continue;
    if (peer.declined_until <= now) return false;
    soonest = std::min(soonest.value_or(peer.declined_until), peer.declined_until);
  }
  if (!soonest || *soonest - now > kPartnerWaitMax) return false;
  pause_timers_.set(round.fragment, *soonest);
  return true;
}

// The fewer places are left for stripes in doubt, the fewer each may have: a handful of partners
// that never answer must not take them all.
bool Initiator::owes(PeerId partner) const {
  const auto found = owed_.find(partner);
  if (found == owed_.end()) return false;
  const std::size_t left = context_.in_doubt - std::min(context_.in_doubt, stripes_.size());
  const std::size_t share = std::max<std::size_t>(left / kShareOfDoubt, 1);
  return found->second >= std::min(owed_max(context_.config), share);
}

std::vector<PeerId> Initiator::not_to_ask(const Round& round) const {
  std::vector<PeerId> peers = round.silent;
  for (const auto& [partner, stripes] : owed_) {
    if (owes(partner)) peers.push_back(partner);
  }
  return peers;
}

// Asks the next candidate of the round. False if nobody is left or allowed.
bool Initiator::offer(Instant now, const Round& round) {
  const GossipConfig& config = context_.config;
  if (round.asked >= config.partners_tried_max) return false;
  if (stripes_.size() >= context_.in_doubt) return false;  // settle some first
  const PeerSampler::Known known{context_.peers, context_.conduct, context_.paces,
                                 last_partners_[round.fragment.value]};
  const auto partner = sampler_.sample(now, known, not_to_ask(round), context_.rng);
  if (!partner) return false;
  Exchange exchange;
  exchange.round = round;
  ++exchange.round.asked;
  exchange.offered_at = now;
  exchange.key = {context_.self, *context_.peers.process(*partner), next_counter_++};
  const FragmentState& state = context_.fragments[round.fragment.value];
  exchange.offer = {exchange.key,
                    round.fragment,
                    context_.stripes[round.fragment.value],
                    context_.codes_with(*partner).offered(context_.format),
                    state.cold,
                    context_.weight(round.fragment),
                    config.mixing,
                    context_.clip_radius(round.fragment),
                    in_ms(patience(now, *partner, payload_[round.fragment.value])),
                    context_.standing,
                    context_.freshness.lag(round.fragment)};
  context_.leases.take(round.fragment);
  context_.send(*partner, exchange.offer);
  ++context_.stats.offers_sent;
  const auto answer = context_.paces.of(now, *partner).answer_within();
  offer_timers_.set(exchange.key, now + within(answer, config.offer_timeout));
  open_.emplace(exchange.key, exchange);
  return true;
}

// An offer came to nothing: on to the next candidate, in the place of the oldest round.
void Initiator::end_offer(Instant now, const ExchangeKey& key, Outcome outcome) {
  const Exchange exchange = open_.at(key);
  STARLING_ASSERT(!exchange.active);
  end(exchange, outcome);
  Round round = exchange.round;
  if (outcome != Outcome::kDeclined) round.silent.push_back(exchange.key.responder.id);
  if (round.asked >= context_.config.partners_tried_max) {
    ++context_.stats.rounds_skipped;
    return;
  }
  const bool published_again =
      std::any_of(pending_.begin(), pending_.end(),
                  [&](const Round& other) { return other.fragment == round.fragment; });
  if (published_again) return;
  if (outcome == Outcome::kDeclined) {
    const auto pause = static_cast<std::uint64_t>(kDeclinePauseMax.count());
    pause_timers_.set(round.fragment,
                      now + Duration(static_cast<Duration::rep>(context_.rng.below(pause))));
  }
  pending_.push_front(round);
}

void Initiator::on_accept(Instant now, PeerId from, const Accept& accept) {
  if (!speaks_for(now, from, accept.exchange)) return;
  const auto found = open_.find(accept.exchange);
  if (found == open_.end()) {  // too late: free its lease
    context_.send(from, Finish{accept.exchange});
    return;
  }
  Exchange& exchange = found->second;
  if (exchange.active) return;
  // A repeated Accept would measure its responder's patience: Karn's ambiguity (RFC 6298, 3).
  const Duration taken = now - exchange.offered_at;
  if (taken < context_.accept_repeat()) context_.paces.of(now, from).on_round_trip(taken);
  context_.note_standing(from, accept.standing);
  if (!is_valid(exchange, accept)) {
    context_.reject(now, from, RejectReason::kBadTerms);
    context_.send(from, Finish{accept.exchange});
    end_offer(now, accept.exchange, Outcome::kAborted);
    return;
  }
  ++context_.stats.offers_accepted;
  offer_timers_.clear(exchange.key);
  last_partners_[exchange.round.fragment.value] = from;
  exchange.active = true;
  exchange.progress_at = now;
  exchange.format = accept.format;
  exchange.window = std::min(accept.window, context_.config.window);
  exchange.terms = {accept.mixing, exchange.offer.weight, accept.weight, accept.clip_radius};
  exchange.partner_lag = accept.lag_s;
  advance(now, accept.exchange);
}

bool Initiator::is_valid(const Exchange& exchange, const Accept& accept) const {
  const GossipConfig& config = context_.config;
  const auto common =
      context_.codes_with(exchange.key.responder.id).common(exchange.offer.format, accept.format);
  const bool known_format =
      accept.format == config.cold_format || (!exchange.offer.cold && common == accept.format);
  const bool known_terms = has_sound_terms(accept) && accept.mixing <= exchange.offer.mixing;
  // What was agreed is all that holds a partner back: it is never more than we wanted.
  const float wanted = exchange.offer.clip_radius;
  const bool known_radius = wanted <= 0 || (accept.clip_radius > 0 && accept.clip_radius <= wanted);
  return known_format && known_terms && known_radius && accept.window > 0;
}

void Initiator::on_decline(Instant now, PeerId from, const Decline& decline) {
  if (!speaks_for(now, from, decline.exchange)) return;
  const auto found = open_.find(decline.exchange);
  if (found == open_.end()) return;
  const Duration pause = std::chrono::milliseconds(decline.retry_after_ms);
  if (decline.reason == DeclineReason::kMuted) {
    ++context_.stats.mutes_heard;
    context_.emit(Muted{from, RejectReason::kNone, pause, false});
  }
  if (Peer* peer = context_.peers.find(from)) {
    peer->declined_until = now + std::min(pause, kDeclinedMax);
    if (decline.reason == DeclineReason::kUnknownPeer) context_.introduce(*peer);
  }
  if (found->second.active) {  // its lease is gone: what we push is not listened to
    close(now, decline.exchange, Outcome::kTimedOut);
    return;
  }
  context_.paces.of(now, from).on_round_trip(now - found->second.offered_at);
  ++context_.stats.offers_declined;
  end_offer(now, decline.exchange, Outcome::kDeclined);
}

bool Initiator::withdraw_crossing(FragmentId fragment, PeerId peer) {
  if (peer > context_.self.id) return false;
  for (const auto& [key, exchange] : open_) {
    const bool crossing = !exchange.active && exchange.round.fragment == fragment;
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

}  // namespace starling::gossip
