#include "gossip/core_impl.h"

#include <algorithm>
#include <utility>

namespace starling::gossip {
namespace {

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

template <class Wanted>
bool is(const Message& message) {
  return std::holds_alternative<Wanted>(message);
}

// What costs its reader more than its writer: an answer many times as long, a signature to check.
// Messages of exchanges are as many as the line carries stripes, and cost a look-up each.
bool is_costly(const Message& message) {
  return is_greeting(message) || is<Ping>(message) || is<Pong>(message) || is<Leave>(message) ||
         is<PingRequest>(message) || is<PingAnswer>(message) || is<Digest>(message) ||
         is<Records>(message) || is<Parts>(message) || is<StateRequest>(message) ||
         is<StateDeclined>(message) || is<RelayAsk>(message);
}

// No pause yet, but more than a busy machine brings about: a process that gets the processor in
// slices is late by this again and again.
constexpr Duration kLateLeast = std::chrono::milliseconds(200);

}  // namespace

void Core::Impl::on_message(Instant now, PeerId from, const Message& message) {
  // The link lets in nobody else, but what it had read before the list changed comes here.
  if (!context.counts(from)) return context.refuse_message();
  const bool begins = is<PieceRequest>(message) && !donor.involves(from);
  if (drops_as_too_many(now, from, begins || is_costly(message))) return;
  if (is<Hello>(message)) {
    membership.on_hello(now, from, std::get<Hello>(message));
  } else if (is<Welcome>(message)) {
    membership.on_welcome(now, from, std::get<Welcome>(message));
  } else if (is<Refuse>(message)) {
    membership.on_refuse(now, from, std::get<Refuse>(message));
  } else if (membership.admit(now, from)) {
    if (drops_as_muted(now, from, message)) return;
    initiator.on_heard(now, from);
    responder.on_heard(now, from);
    on_control(now, from, message);
  } else if (const auto* ping = std::get_if<Ping>(&message)) {
    membership.on_strange_ping(from, *ping);
  } else if (const auto* records = std::get_if<Records>(&message)) {
    membership.on_strange_records(now, from, *records);
  } else if (const auto* offer = std::get_if<Offer>(&message)) {
    responder.decline_strange(from, *offer);
  }
}

// It is heard, though not listened to: too many messages are no rumor of death. A stranger has no
// row; what it may do the link's door decides.
bool Core::Impl::drops_as_too_many(Instant now, PeerId from, bool costly) {
  Peer* peer = context.peers.find(from);
  if (peer == nullptr || !peer->met) return false;
  MessageMeter::Intake intake = peer->said_in_all.take(now);
  if (intake == MessageMeter::Intake::kTaken && costly) intake = peer->said.take(now);
  if (intake == MessageMeter::Intake::kTaken) return false;
  const bool deluge = intake == MessageMeter::Intake::kDeluge;
  context.reject(now, from, deluge ? RejectReason::kDeluge : RejectReason::kTooMany);
  membership.note_heard(now, from);
  return true;
}

// A muted peer's signs of life are taken, or its mute would become a rumor of its death.
bool Core::Impl::drops_as_muted(Instant now, PeerId from, const Message& message) {
  if (!context.conduct.muted(now, from)) return false;
  if (is<Ping>(message) || is<Pong>(message) || is<Leave>(message)) return false;
  ++context.stats.messages_muted;
  if (is_bulk(message)) context.note_payload(now, from, false);
  const auto* offer = std::get_if<Offer>(&message);
  if (offer != nullptr) responder.decline_muted(now, from, offer->exchange);
  // It holds a fragment for us, since our Finish was lost when it was muted, or its Accept was
  // late.
  const auto* accept = std::get_if<Accept>(&message);
  if (accept != nullptr && accept->exchange.initiator == context.self) {
    context.send(from, Finish{accept->exchange});
  }
  return true;
}

void Core::Impl::on_control(Instant now, PeerId from, const Message& message) {
  std::visit(
      Overloaded{
          [](const Hello&) {},
          [](const Welcome&) {},
          [](const Refuse&) {},
          [&](const Ping& ping) { membership.on_ping(now, from, ping); },
          [&](const Pong& pong) { membership.on_pong(now, from, pong); },
          [&](const Leave& leave) { membership.on_leave(now, from, leave); },
          [&](const Offer& offer) { on_offer(now, from, offer); },
          [&](const Accept& accept) { initiator.on_accept(now, from, accept); },
          [&](const Decline& decline) { initiator.on_decline(now, from, decline); },
          [&](const Commit& commit) { responder.on_commit(now, from, commit.ref); },
          [&](const Committed& committed) { initiator.on_committed(now, from, committed.ref); },
          [&](const Abandoned& abandoned) { initiator.on_abandoned(now, from, abandoned); },
          [&](const Abort& abort) { responder.on_abort(now, from, abort); },
          [&](const Query& query) { initiator.on_query(now, from, query.ref); },
          [&](const Resend& resend) { responder.on_resend(now, from, resend.ref); },
          [&](const Finish& finish) { responder.on_finish(now, from, finish.exchange); },
          [&](const Push& push) { responder.on_push(now, from, push.ref); },
          [&](const Delta& delta) { initiator.on_delta(now, from, delta.ref); },
          [&](const Parts& news) { parts.on_parts(from, news); },
          [&](const StateRequest&) { donor.on_request(now, from, fetcher.active()); },
          [&](const StateOffer& offer) { fetcher.on_offer(now, from, offer); },
          [&](const StateDeclined& declined) { on_state_declined(now, from, declined); },
          [&](const PieceRequest& piece) { donor.on_piece_request(now, from, piece); },
          [&](const Piece& piece) { fetcher.on_piece(now, from, piece); },
          [](const BulkHello&) {},
          [&](const PingRequest& request) { membership.on_ping_request(now, from, request); },
          [&](const PingAnswer& answer) { membership.on_ping_answer(now, from, answer); },
          [&](const Digest& digest) { membership.on_digest(now, from, digest); },
          [&](const Records& records) { membership.on_records(now, from, records); },
          [&](const RelayAsk& ask) { relay_host.on_ask(now, from, ask); },
          [&](const RelayGrant& grant) { relay_choice.on_grant(now, from, grant); },
          [&](const RelayDecline& decline) { relay_choice.on_decline(now, from, decline); }},
      message);
}

void Core::Impl::on_state_declined(Instant now, PeerId from, const StateDeclined& declined) {
  if (declined.reason == StateReason::kFinished) {
    donor.on_finished(now, from);
  } else if (declined.reason == StateReason::kWrong) {
    donor.on_turned_down(now, from);
  } else {
    fetcher.on_declined(now, from, declined);
  }
}

void Core::Impl::on_state(Instant now, const StateInput& input) {
  std::visit(
      Overloaded{
          [&](const FetchState& fetch) { fetcher.start(now, fetch.held); },
          [&](const NewCheckpoint&) { donor.on_checkpoint(); },
          [&](const SnapshotReady& ready) { donor.on_snapshot(now, ready.offer); },
          [&](const PieceReadDone& done) { donor.on_piece_read(now, done.order, done.outcome); },
          [&](const PieceStoredDone& done) { fetcher.on_piece_stored(now, done); },
          [&](const StateChecked& checked) { fetcher.on_checked(now, checked.good); }},
      input);
}

void Core::Impl::on_offer(Instant now, PeerId from, const Offer& offer) {
  ++context.stats.offers_received;
  if (!context.conduct.takes_offer(now, from)) {
    context.reject(now, from, RejectReason::kFlood);
    return;
  }
  if (responder.is_repeated(now, from, offer)) return;
  context.note_standing(from, offer.standing);
  if (fetcher.active()) {  // its weights are about to be replaced
    responder.decline(from, offer, DeclineReason::kBusy);
    return;
  }
  if (const auto reason = responder.objection(offer)) {
    if (*reason == DeclineReason::kBadOffer) context.reject(now, from, RejectReason::kBadTerms);
    responder.decline(from, offer, *reason);
    return;
  }
  const bool leased = context.leases.held(offer.fragment);
  if (leased && !initiator.withdraw_crossing(offer.fragment, from)) {
    responder.decline(from, offer, DeclineReason::kLeased);
    return;
  }
  responder.accept(now, from, offer);
}

void Core::Impl::on_deadline(Instant now) {
  const auto armed = next_deadline();
  if (!armed || now < *armed) return;
  const Duration interval = context.config.ping_interval;
  const Duration late = now - *armed;
  const Duration pause =
      std::min<Duration>(std::chrono::seconds(1), context.config.suspect_after / 3);
  if (late > pause) {
    // We did not run. What others said meanwhile may wait in the sockets: hear it before judging.
    membership.on_pause(late + interval);
    initiator.shift(late + interval);
    responder.shift(late + interval);
    donor.shift(late + interval);
    fetcher.shift(late + interval);
    relay_choice.on_pause(now);
  } else if (late > kLateLeast) {
    membership.on_late(late);
  }
  membership.on_deadline(now);
  close_lines(now);
  after_input(now);
  initiator.on_deadline(now);
  responder.on_deadline(now);
  parts.on_deadline(now);
  donor.on_deadline(now);
  fetcher.on_deadline(now);
  relay_host.on_deadline(now);
  relay_choice.on_deadline(now);
  membership.announce(now, relay_choice.held());
}

void Core::Impl::close_lines(Instant now) {
  if (now < next_close) return;
  next_close = now + context.config.ping_interval;
  membership.close_lines(now, [this](PeerId peer) {
    return initiator.involves(peer) || responder.involves(peer) || donor.involves(peer) ||
           fetcher.involves(peer) || relay_choice.involves(peer) || relay_host.involves(peer);
  });
}

// Tells the exchanges who was lost, found or muted, and uses what slots came free.
void Core::Impl::after_input(Instant now) {
  for (const PeerId peer : membership.take_lost()) {
    initiator.on_peer_lost(now, peer);
    responder.on_peer_lost(now, peer);
    donor.on_peer_lost(now, peer);
    fetcher.on_peer_lost(now, peer);
    relay_choice.on_peer_lost(now, peer);
    relay_host.on_peer_lost(peer);
  }
  for (const PeerId peer : membership.take_found()) initiator.on_peer_found(now, peer);
  for (const PeerId peer : std::exchange(context.just_muted, {})) {
    initiator.on_muted(now, peer);
    responder.on_muted(now, peer);
  }
  initiator.start_pending(now);
}

std::optional<Instant> Core::Impl::next_deadline() const {
  if (left) return std::nullopt;
  // Relays and idle lines are looked at whenever membership ticks. That is often enough: what they
  // wait for takes seconds, as an answer does, or minutes, as a lease.
  Instant next = membership.next_deadline();
  for (const auto& other :
       {initiator.next_deadline(), responder.next_deadline(), donor.next_deadline(),
        fetcher.next_deadline(), parts.next_deadline()}) {
    if (other) next = std::min(next, *other);
  }
  return next;
}

}  // namespace starling::gossip
