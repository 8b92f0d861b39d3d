#include "gossip/core.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "gossip/core_impl.h"

namespace starling::gossip {

Core::Core(const GossipConfig& config, const CoreIdentity& identity, const RestoredState& restored,
           Instant now)
    : impl_(std::make_unique<Impl>(config, identity, restored, now)) {}
Core::~Core() = default;
Core::Core(Core&&) noexcept = default;
Core& Core::operator=(Core&&) noexcept = default;

void Core::on_join(Instant now, std::span<const PeerAddress> seeds) {
  if (impl_->left) return;
  impl_->context.now = now;
  impl_->membership.on_join(now, seeds);
}

void Core::on_message(Instant now, PeerId from, const Message& message) {
  if (impl_->left) return;
  impl_->context.now = now;
  impl_->on_message(now, from, message);
  impl_->after_input(now);
}

void Core::on_relayed(Instant now, PeerId through, PeerId from, const Message& message) {
  impl_->context.through = through;
  on_message(now, from, message);
  impl_->context.through = {};
}

void Core::on_forwarded(Instant now, PeerId from, PeerId to) {
  if (impl_->left) return;
  impl_->context.now = now;
  impl_->relay_host.on_forwarded(from, to);
}

void Core::on_send_failed(Instant now, PeerId to) {
  if (impl_->left) return;
  impl_->context.now = now;
  impl_->membership.on_send_failed(now, to);
  impl_->initiator.on_send_failed(now, to);
  impl_->responder.on_send_failed(to);
}

void Core::on_bad_frame(Instant now, PeerId from, RejectReason reason) {
  if (impl_->left) return;
  impl_->context.now = now;
  impl_->context.note_bad_frame(now, from, reason);
  impl_->after_input(now);
}

void Core::on_refused(Instant now, PeerId id, const Refused& event) {
  if (impl_->left) return;
  impl_->context.now = now;
  impl_->membership.on_refused(now, id, event);
  impl_->after_input(now);
}

void Core::on_reached(Instant now, Reach from) { impl_->membership.on_reached(now, from); }

void Core::on_deadline(Instant now) {
  if (impl_->left) return;
  impl_->context.now = now;
  impl_->on_deadline(now);
  impl_->after_input(now);
}

void Core::on_close(Instant) { impl_->context.closing = true; }

void Core::on_exchanges_allowed(Instant now, bool allowed) {
  impl_->context.now = now;
  impl_->context.resting = !allowed;
  if (!allowed && !impl_->left) impl_->donor.on_resting(now);
  if (!impl_->left) impl_->after_input(now);
}

void Core::on_paced(Instant now, bool paced) {
  impl_->context.now = now;
  impl_->context.paced = paced;
  if (!impl_->left) impl_->after_input(now);
}

void Core::on_format(Instant, std::uint8_t format) { impl_->context.format = format; }

void Core::on_members(Instant now, std::span<const PeerId> members) {
  impl_->context.now = now;
  impl_->context.members.emplace(members.begin(), members.end());
  if (impl_->left || impl_->context.peers.rows().empty()) return;
  impl_->membership.on_members();
  impl_->after_input(now);
}

void Core::on_sick(Instant) { impl_->context.sick = true; }

void Core::on_leave(Instant now) {
  if (impl_->left) return;
  impl_->context.now = now;
  impl_->context.closing = true;
  impl_->initiator.abandon_all();
  impl_->responder.abandon_all(now);
  impl_->membership.leave();
  impl_->left = true;
}

void Core::on_published(Instant now, FragmentId fragment, const FragmentState& state) {
  on_fragment_state(now, fragment, state);
  if (impl_->left || impl_->context.closing) return;
  impl_->context.now = now;
  impl_->context.freshness.on_published(now, fragment);
  impl_->initiator.on_published(fragment);
  impl_->responder.on_published(fragment);
  impl_->after_input(now);
}

void Core::on_fragment_state(Instant, FragmentId fragment, const FragmentState& state) {
  STARLING_ASSERT(impl_->context.has_fragment(fragment));
  impl_->context.fragments[fragment.value] = state;
}

void Core::on_progress(Instant now, std::uint64_t tokens, float tokens_per_second) {
  impl_->context.tokens.set_own(now, tokens, tokens_per_second);
  impl_->context.note_progress(now, tokens);
}

void Core::on_standing(Instant, const Standing& standing) { impl_->context.standing = standing; }

void Core::on_part_finished(Instant, std::uint16_t part, std::uint16_t times) {
  impl_->parts.on_finished(part, times);
}

void Core::on_parts_held(Instant, std::span<const std::uint16_t> parts) {
  impl_->parts.on_held(parts);
}

void Core::on_encoded(Instant now, const StripeRef& ref, const Verdict& verdict,
                      std::size_t payload_bytes) {
  if (impl_->left) return;
  impl_->context.now = now;
  impl_->initiator.on_encoded(now, ref, verdict, payload_bytes);
  impl_->after_input(now);
}

void Core::on_staged(Instant now, const StripeRef& ref, const Verdict& verdict,
                     std::size_t payload_bytes) {
  if (impl_->left) return;
  impl_->context.now = now;
  impl_->responder.on_staged(now, ref, verdict, payload_bytes);
  impl_->after_input(now);
}

void Core::on_applied(Instant now, const StripeRef& ref, const Verdict& verdict) {
  if (impl_->left) return;
  impl_->context.now = now;
  if (impl_->initiated_here(ref)) {
    impl_->initiator.on_applied(now, ref, verdict);
  } else {
    impl_->responder.on_applied(now, ref, verdict);
  }
  impl_->after_input(now);
}

void Core::on_compensated(Instant now, const StripeRef& ref) {
  if (impl_->left) return;
  impl_->context.now = now;
  impl_->initiator.on_compensated(now, ref);
  impl_->after_input(now);
}

void Core::on_state(Instant now, const StateInput& input) {
  if (impl_->left) return;
  impl_->context.now = now;
  impl_->on_state(now, input);
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
  const CoreContext& context = impl_->context;
  return context.tokens.estimate(context.token_shares(now));
}

double Core::speed_share() const { return impl_->context.speed_share(); }
PeerId Core::fastest_peer() const { return impl_->context.believed_rates().fastest_peer; }
double Core::equal_peers() const { return impl_->context.equal_peers(); }

std::vector<TokenEntry> Core::token_map() const { return impl_->context.tokens.entries(); }

std::vector<PartView> Core::parts() const { return impl_->parts.views(); }
const PeerRecord& Core::self() const { return impl_->membership.self(); }

std::vector<PeerRecord> Core::peers() const {
  std::vector<PeerRecord> records;
  for (const auto& [id, peer] : impl_->context.peers.rows()) records.push_back(peer.record);
  return records;
}

std::vector<PeerView> Core::peer_views(Instant now, std::size_t most) const {
  const CoreContext& context = impl_->context;
  std::vector<const Peer*> rows;
  for (const auto& [id, peer] : context.peers.rows()) rows.push_back(&peer);
  const auto rank = [](const Peer& peer) {
    const bool partner = peer.welcomed && peer.record.health == Health::kAlive;
    return std::tuple(partner, is_present(peer.record.health), peer.last_heard);
  };
  most = std::min(most, rows.size());
  std::partial_sort(
      rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(most), rows.end(),
      [&rank](const Peer* left, const Peer* right) { return rank(*left) > rank(*right); });
  rows.resize(most);
  std::unordered_map<PeerId, PeerView> told;
  context.tokens.for_each([&told](const PeerKey& process, std::uint64_t tokens, float rate) {
    PeerView& view = told[process.id];
    view.tokens += tokens;
    if (process.incarnation < view.record.key.incarnation) return;
    view.record.key = process;
    view.tokens_per_second = rate;
  });
  std::vector<PeerView> views;
  for (const Peer* peer : rows) {
    const PeerId id = peer->record.key.id;
    PeerView& view = views.emplace_back(told[id]);
    if (view.record.key != process_of(peer->record)) view.tokens_per_second = 0;
    view.record = peer->record;
    view.partner = peer->welcomed && is_present(peer->record.health);
    view.muted = context.conduct.muted(now, id);
    view.doubtful = context.conduct.doubtful(now, id);
    view.rests = context.conduct.resting(now, id);
    view.relayed = view.partner && is_out_of_reach(*peer, now);
    view.standing = peer->standing;
    view.standing_at = peer->standing_at;
    if (const PeerPace* pace = context.paces.find(id)) view.round_trip = pace->round_trip();
  }
  return views;
}

std::size_t Core::exchanges_open() const { return impl_->context.leases.count(); }
std::size_t Core::stripes_unsettled() const { return impl_->initiator.unsettled(); }
JoinProgress Core::join_progress() const { return impl_->fetcher.progress(); }
float Core::weight() const { return impl_->context.weight(); }
Footing Core::footing() const { return impl_->context.footing(); }
double Core::missed() const { return impl_->context.freshness.missed(); }
WeightsAge Core::age(Instant now) const {
  const CoreContext& context = impl_->context;
  const bool judged = context.newcomer.decided() || context.tokens.restored_others() == 0;
  return judged ? WeightsAge{missed(), now} : context.restored_age;
}

bool Core::muted(Instant now, PeerId peer) const { return impl_->context.conduct.muted(now, peer); }
Duration Core::payload_within(PeerId peer, std::size_t bytes) const {
  return impl_->context.paces.payload_within(peer, bytes);
}
std::size_t Core::peers_muted(Instant now) const { return impl_->context.conduct.muted(now); }

CoreStats Core::stats() const {
  const PeerTable& peers = impl_->context.peers;
  CoreStats stats = impl_->context.stats;
  stats.peers_alive = peers.count(Health::kAlive);
  stats.partners = peers.partners();
  stats.peers_suspect = peers.count(Health::kSuspect);
  stats.peers_dead = peers.count(Health::kDead);
  stats.part_entries_refused = impl_->parts.refused();
  stats.swarm_size = impl_->membership.swarm_size();
  stats.lines_open = impl_->context.lines.size();
  stats.health_score = impl_->membership.health_score();
  stats.split = impl_->membership.split();
  stats.partners_relayed = peers.partners_out_of_reach(impl_->context.now);
  stats.relays = impl_->relay_choice.held().size();
  stats.relay_holders = impl_->relay_host.holders();
  return stats;
}

void Core::assert_invariants() const {
  const Impl& impl = *impl_;
  STARLING_ASSERT(impl.context.leases.count() == impl.initiator.open() + impl.responder.open());
  impl.context.assert_invariants();
  STARLING_ASSERT(impl.parts.claims() <= PartMap::kClaimsMax);
  STARLING_ASSERT(impl.donor.sessions() <= impl.context.config.state.serve_max);
  STARLING_ASSERT(impl.relay_host.holders() <= impl.context.config.relay.holders_max);
  if (impl.left) return;
  impl.membership.assert_invariants();
  impl.initiator.assert_invariants();
  impl.responder.assert_invariants();
  impl.fetcher.assert_invariants();
}

}  // namespace starling::gossip
