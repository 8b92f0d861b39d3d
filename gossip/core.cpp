#include "gossip/core.h"

#include <algorithm>
#include <set>
#include <utility>

#include "gossip/core_context.h"
#include "gossip/initiator.h"
#include "gossip/membership.h"
#include "gossip/part_gossip.h"
#include "gossip/responder.h"
#include "gossip/state_donor.h"
#include "gossip/state_fetcher.h"

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

}  // namespace

struct Core::Impl {
  Impl(const GossipConfig& config, const CoreIdentity& identity, const RestoredState& restored,
       Instant now)
      : context(config, identity, restored, now),
        membership(context, identity, now),
        initiator(context, restored, now),
        responder(context, restored),
        donor(context),
        fetcher(context),
        parts(context, identity, restored, now) {}

  void on_message(Instant now, PeerId from, const Message& message);
  void on_control(Instant now, PeerId from, const Message& message);
  bool drops_as_muted(Instant now, PeerId from, const Message& message);
  void on_offer(Instant now, PeerId from, const Offer& offer);
  void on_state_declined(Instant now, PeerId from, const StateDeclined& declined);
  void on_state(Instant now, const StateInput& input);
  void on_deadline(Instant now);
  void after_input(Instant now);
  std::optional<Instant> next_deadline() const;
  std::set<PeerKey> live_processes() const;
  bool initiated_here(const StripeRef& ref) const {
    return ref.exchange.initiator.id == context.self.id;
  }

  CoreContext context;
  Membership membership;
  Initiator initiator;
  Responder responder;
  StateDonor donor;
  StateFetcher fetcher;
  PartGossip parts;
  bool left = false;
};

void Core::Impl::on_message(Instant now, PeerId from, const Message& message) {
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
  }
}

// A muted peer's signs of life are taken, or its mute would become a rumor of its death.
bool Core::Impl::drops_as_muted(Instant now, PeerId from, const Message& message) {
  if (!context.conduct.muted(now, from)) return false;
  if (is<Ping>(message) || is<Pong>(message) || is<Leave>(message)) return false;
  ++context.stats.messages_muted;
  const auto* offer = std::get_if<Offer>(&message);
  if (offer != nullptr) responder.decline_muted(now, from, offer->exchange);
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
          [](const BulkHello&) {}},
      message);
}

void Core::Impl::on_state_declined(Instant now, PeerId from, const StateDeclined& declined) {
  if (declined.reason == StateReason::kFinished) {
    donor.on_finished(from);
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
          [&](const PieceStoredDone& done) {
            fetcher.on_piece_stored(now, done.order, done.outcome);
          },
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
  if (late > std::max<Duration>(std::chrono::seconds(1), interval)) {
    // We did not run. What others said meanwhile may wait in the sockets: hear it before judging.
    membership.shift(late + interval);
    initiator.shift(late + interval);
    responder.shift(late + interval);
    donor.shift(late + interval);
    fetcher.shift(late + interval);
  }
  membership.on_deadline(now);
  after_input(now);
  initiator.on_deadline(now);
  responder.on_deadline(now);
  parts.on_deadline(now);
  donor.on_deadline(now);
  fetcher.on_deadline(now);
}

// Tells the exchanges who was lost, found or muted, and uses what slots came free.
void Core::Impl::after_input(Instant now) {
  for (const PeerId peer : membership.take_lost()) {
    initiator.on_peer_lost(now, peer);
    responder.on_peer_lost(now, peer);
    donor.on_peer_lost(peer);
    fetcher.on_peer_lost(now, peer);
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
  Instant next = membership.next_deadline();
  for (const auto& other :
       {initiator.next_deadline(), responder.next_deadline(), donor.next_deadline(),
        fetcher.next_deadline(), parts.next_deadline()}) {
    if (other) next = std::min(next, *other);
  }
  return next;
}

std::set<PeerKey> Core::Impl::live_processes() const {
  std::set<PeerKey> live{context.self};
  for (const auto& [id, peer] : context.peers.rows()) {
    if (peer.record.health == Health::kAlive) live.insert(process_of(peer.record));
  }
  return live;
}

Core::Core(const GossipConfig& config, const CoreIdentity& identity, const RestoredState& restored,
           Instant now)
    : impl_(std::make_unique<Impl>(config, identity, restored, now)) {}
Core::~Core() = default;
Core::Core(Core&&) noexcept = default;
Core& Core::operator=(Core&&) noexcept = default;

void Core::on_join(Instant now, std::span<const PeerAddress> seeds) {
  if (impl_->left) return;
  impl_->membership.on_join(now, seeds);
}

void Core::on_message(Instant now, PeerId from, const Message& message) {
  if (impl_->left) return;
  impl_->on_message(now, from, message);
  impl_->after_input(now);
}

void Core::on_send_failed(Instant now, PeerId to) {
  if (impl_->left) return;
  impl_->membership.on_send_failed(now, to);
  impl_->initiator.on_send_failed(now, to);
  impl_->responder.on_send_failed(to);
}

void Core::on_malformed(Instant now, PeerId from) {
  if (impl_->left) return;
  impl_->context.reject(now, from, RejectReason::kMalformed);
  impl_->after_input(now);
}

void Core::on_refused(Instant now, PeerId id, const Refused& event) {
  if (impl_->left) return;
  impl_->membership.on_refused(now, id, event);
  impl_->after_input(now);
}

void Core::on_reached(Instant) { impl_->membership.on_reached(); }

void Core::on_deadline(Instant now) {
  if (impl_->left) return;
  impl_->on_deadline(now);
  impl_->after_input(now);
}

void Core::on_close(Instant) { impl_->context.closing = true; }

void Core::on_exchanges_allowed(Instant now, bool allowed) {
  impl_->context.resting = !allowed;
  if (!impl_->left) impl_->after_input(now);
}

void Core::on_sick(Instant) { impl_->context.sick = true; }

void Core::on_leave(Instant now) {
  if (impl_->left) return;
  impl_->context.closing = true;
  impl_->initiator.abandon_all();
  impl_->responder.abandon_all(now);
  impl_->membership.leave();
  impl_->left = true;
}

void Core::on_published(Instant now, FragmentId fragment, const FragmentState& state) {
  on_fragment_state(now, fragment, state);
  if (impl_->left || impl_->context.closing) return;
  impl_->initiator.on_published(fragment);
  impl_->after_input(now);
}

void Core::on_fragment_state(Instant, FragmentId fragment, const FragmentState& state) {
  STARLING_ASSERT(impl_->context.has_fragment(fragment));
  impl_->context.fragments[fragment.value] = state;
}

void Core::on_progress(Instant now, std::uint64_t tokens, float tokens_per_second) {
  impl_->context.tokens.set_own(now, tokens, tokens_per_second);
}

void Core::on_part_finished(Instant, std::uint16_t part, std::uint16_t times) {
  impl_->parts.on_finished(part, times);
}

void Core::on_parts_held(Instant, std::span<const std::uint16_t> parts) {
  impl_->parts.on_held(parts);
}

void Core::on_encoded(Instant now, const StripeRef& ref, const Verdict& verdict,
                      std::size_t payload_bytes) {
  if (impl_->left) return;
  impl_->initiator.on_encoded(now, ref, verdict, payload_bytes);
  impl_->after_input(now);
}

void Core::on_staged(Instant now, const StripeRef& ref, const Verdict& verdict,
                     std::size_t payload_bytes) {
  if (impl_->left) return;
  impl_->responder.on_staged(now, ref, verdict, payload_bytes);
  impl_->after_input(now);
}

void Core::on_applied(Instant now, const StripeRef& ref, const Verdict& verdict) {
  if (impl_->left) return;
  if (impl_->initiated_here(ref)) {
    impl_->initiator.on_applied(now, ref, verdict);
  } else {
    impl_->responder.on_applied(now, ref, verdict);
  }
  impl_->after_input(now);
}

void Core::on_compensated(Instant now, const StripeRef& ref) {
  if (impl_->left) return;
  impl_->initiator.on_compensated(now, ref);
  impl_->after_input(now);
}

void Core::on_state(Instant now, const StateInput& input) {
  if (!impl_->left) impl_->on_state(now, input);
}

std::optional<Action> Core::poll_action() {
  std::deque<Action>& actions = impl_->context.actions;
  if (actions.empty()) return std::nullopt;
  Action action = std::move(actions.front());
  actions.pop_front();
  return action;
}

std::optional<Instant> Core::next_deadline() const { return impl_->next_deadline(); }

double Core::swarm_tokens(Instant now) const {
  return impl_->context.tokens.estimate(now, impl_->live_processes());
}

std::vector<TokenEntry> Core::token_map() const { return impl_->context.tokens.entries(); }

std::vector<PartView> Core::parts() const { return impl_->parts.views(); }
const PeerRecord& Core::self() const { return impl_->membership.self(); }

std::vector<PeerRecord> Core::peers() const {
  std::vector<PeerRecord> records;
  for (const auto& [id, peer] : impl_->context.peers.rows()) records.push_back(peer.record);
  return records;
}

std::size_t Core::exchanges_open() const { return impl_->context.leases.count(); }
std::size_t Core::stripes_unsettled() const { return impl_->initiator.unsettled(); }
JoinProgress Core::join_progress() const { return impl_->fetcher.progress(); }
float Core::weight() const { return impl_->context.newcomer.weight(); }

bool Core::muted(Instant now, PeerId peer) const { return impl_->context.conduct.muted(now, peer); }
std::size_t Core::peers_muted(Instant now) const { return impl_->context.conduct.muted(now); }

CoreStats Core::stats() const {
  const PeerTable& peers = impl_->context.peers;
  CoreStats stats = impl_->context.stats;
  stats.peers_alive = peers.count(Health::kAlive);
  stats.partners = peers.partners();
  stats.peers_suspect = peers.count(Health::kSuspect);
  stats.peers_dead = peers.count(Health::kDead);
  stats.part_entries_refused = impl_->parts.refused();
  return stats;
}

void Core::assert_invariants() const {
  const Impl& impl = *impl_;
  STARLING_ASSERT(impl.context.leases.count() == impl.initiator.open() + impl.responder.open());
  STARLING_ASSERT(impl.context.peers.rows().size() <= impl.context.config.peers_max);
  if (impl.left) return;
  impl.initiator.assert_invariants();
  impl.responder.assert_invariants();
}

}  // namespace starling::gossip
