#include "gossip/membership.h"

#include <algorithm>
#include <utility>

namespace starling::gossip {
namespace {

// Of peers that are told of our leaving ourselves; they tell the others.
constexpr std::size_t kToldOfLeaving = 32;

// A peer that listens finds out within so many intervals whether it can be dialled.
constexpr int kReachedWithin = 10;
// Every change of the own record is news for the whole swarm.
constexpr int kIntervalsPerAnnouncement = 5;

const RecordSeal& seal_of(const CoreIdentity& identity) {
  STARLING_ASSERT(identity.seal != nullptr);
  return *identity.seal;
}

bool is_valid(const PeerRecord& record) {
  return record.key.id != PeerId{} && record.key.id == id_of(record.address.key);
}

}  // namespace

Membership::Membership(CoreContext& context, const CoreIdentity& identity, Instant now)
    : context_(context),
      self_(identity.self),
      run_(identity.run),
      seal_(seal_of(identity)),
      greetings_(now),
      next_redial_(now),
      next_dial_test_(now + kDialTestEvery),
      next_announcement_(now),
      next_claim_(now),
      next_trial_(now + kTrialEvery),
      reached_from_(identity.self.dialable ? Reach::kAnywhere : Reach::kUnspecified),
      next_look_at_tokens_(now + kLookAtTokensEvery) {
  self_.key = record_key(identity.self.key, 0);
  self_.health = Health::kAlive;
  context_.dialable = self_.dialable;
  self_.forwards = self_.dialable && context_.config.relay.volunteer;
  const bool may_be_reached = listens(self_.address);
  context_.relays_from =
      now + (may_be_reached ? kReachedWithin : 0) * context_.config.ping_interval;
  seal_self();
  const auto interval = static_cast<std::uint64_t>(context_.config.ping_interval.count());
  STARLING_ASSERT(interval > 0);
  // A random phase, so that peers started together do not ping together.
  next_tick_ = now + Duration(static_cast<Duration::rep>(context_.rng.below(interval)));
}

void Membership::on_join(Instant now, std::span<const PeerAddress> seeds) {
  for (const PeerAddress& address : seeds) {
    if (!listens(address) || address.key == self_.address.key) continue;
    const bool known = std::any_of(seeds_.begin(), seeds_.end(),
                                   [&](const Seed& seed) { return seed.address == address; });
    if (known || seeds_.size() >= kSeedsMax) continue;
    seeds_.push_back(
        {.address = address, .id = id_of(address.key), .greeted_at = now, .refused_until = now});
  }
  greet_seeds(now);
}

void Membership::on_hello(Instant now, PeerId from, const Hello& message) {
  const PeerRecord& record = message.self;
  const bool is_self = from == context_.self.id || record.key.id == context_.self.id;
  const auto reason = is_self ? RefuseReason::kSelf : incompatible(message.identity);
  if (!is_valid(record) || (!is_self && record.key.id != from)) {
    context_.refuse_message();
    return;
  }
  if (reason) {
    context_.refuse_message();
    context_.emit(Reply{from, Refuse{*reason, run_, self_.address}});
    report_refusal(now, {record.address, *reason, run_, message.identity, true}, from);
    return;
  }
  if (!meet(now, record, message.identity)) return;
  Peer& peer = *context_.peers.find(from);
  context_.send(from, Welcome{self_, run_});
  // Word of any rumor that the greeter should deny. It will ask for news itself.
  if (peer.record.health != Health::kAlive) ping(now, peer);
}

void Membership::on_welcome(Instant now, PeerId from, const Welcome& message) {
  const bool valid = is_valid(message.self) && message.self.key.id == from;
  if (!valid || from == context_.self.id) {
    context_.refuse_message();
    return;
  }
  if (const auto reason = incompatible(message.identity)) {
    context_.refuse_message();
    report_refusal(now, {message.self.address, *reason, run_, message.identity, true}, from);
    return;
  }
  const bool was_welcome = context_.peers.is_welcome(from);
  if (!meet(now, message.self, message.identity)) return;
  Peer& peer = *context_.peers.find(from);
  if (!was_welcome || peer.record.health != Health::kAlive) ping(now, peer);
}

// True or not, what its subject has not signed nobody else could check. Those whom we have met are
// metered and can be muted; `known` may be null.
bool Membership::is_checked(Instant now, const Peer* known, const PeerRecord& record) {
  const PeerId from = record.key.id;
  const bool stranger = known == nullptr || !known->met;
  if (stranger && !greetings_.take(now, from)) {
    context_.refuse_message();
    return false;
  }
  if (is_vouched(record)) return true;
  if (stranger) greetings_.bar(now, from);
  context_.reject(now, from, RejectReason::kForged);
  return false;
}

void Membership::show_later_life(Instant now, const Peer& known) {
  Records records;
  STARLING_ASSERT(records.records.try_push(PeerTable::told(known, now)));
  context_.emit(Reply{known.record.key.id, records});
}

// One of the same run has introduced itself. False if the introduction is outdated.
bool Membership::meet(Instant now, const PeerRecord& introduced, const RunIdentity& theirs) {
  const auto version = common_version(run_.versions, theirs.versions);
  STARLING_ASSERT(version.has_value());
  const PeerId from = introduced.key.id;
  PeerRecord record = introduced;
  record.health = Health::kAlive;
  record.accuser = {};
  record.age_s = 0;
  const Peer* known = context_.peers.find(from);
  const bool outdated = known != nullptr && process_of(record) < process_of(known->record);
  const bool has_left = known != nullptr && known->record.health == Health::kLeft &&
                        !supersedes(record, known->record);
  // Whoever signed it: it changes nothing, and costs no check that others wait for.
  if (outdated || has_left) {
    context_.refuse_message();
    // It may live all the same, on a copy of the later one's key: what it signed will tell.
    if (outdated) show_later_life(now, *known);
    return false;
  }
  const bool same = known != nullptr && known->record.signature == record.signature &&
                    known->record.key == record.key;
  if (!same && !is_checked(now, known, record)) return false;
  const Health before = known == nullptr ? Health::kAlive : known->record.health;
  const PeerTable::Change change = merge(now, record);
  Peer* peer = context_.peers.find(from);
  if (peer == nullptr) {  // the table is full of peers in use
    greetings_.bar(now, from);
    context_.refuse_message();
    return false;
  }
  const bool changed =
      change == PeerTable::Change::kProcess || change == PeerTable::Change::kHealth;
  if (changed) note_change(now, change, before, *peer);
  note_life(now, *peer);
  peer->version = *version;
  context_.peers.note_met(*peer);
  if (peer->connected) context_.connect(*peer);
  if (peer->welcomed) return true;
  peer->welcomed = true;
  if (!changed && is_present(peer->record.health)) context_.emit(PeerChanged{peer->record});
  found_.push_back(from);
  return true;
}

void Membership::on_refuse(Instant now, PeerId from, const Refuse& refuse) {
  // Whom nobody here greets has nothing to refuse, and names cost nothing. One that has agreed on
  // the run cannot disagree later, but it can be told to trust us no more.
  const bool greeted = seed_of(from) != nullptr || context_.peers.find(from) != nullptr;
  if (!greeted || (context_.peers.is_welcome(from) && !is_about_trust(refuse.reason))) {
    context_.refuse_message();
    return;
  }
  on_refused(now, from, {refuse.address, refuse.reason, run_, refuse.identity, false});
}

void Membership::on_refused(Instant now, PeerId id, const Refused& event) {
  const Instant until = now + (is_about_trust(event.reason) ? kDistrustedFor : kRefusedFor);
  if (Seed* seed = seed_of(id)) seed->refused_until = until;
  if (Peer* peer = context_.peers.find(id)) {
    peer->refused_until = until;
    if (peer->welcomed) {
      peer->welcomed = false;
      context_.hang_up(*peer);
      lost_.push_back(id);
    }
  }
  report_refusal(now, event, id);
}

void Membership::on_reached(Instant now, Reach from) {
  reached_from_ = from;
  claim_reach(now);
}

// Everybody believes the claim. An address of this network, or this machine, leads here from
// nowhere else, so callers must come from as far away as the swarm reaches, or did lately: two
// peers of one network would prove each other dialable, where distant ones dial in vain and no
// relay is asked for. Who is near finds out by trying (greet_on_trial(), test_dialling()). Of an
// address for all, or a name, any caller from another machine is proof: routers and containers
// rewrite sources.
Reach Membership::reach_wanted(Instant now) {
  const Reach own = reach_of(host(self_.address));
  if (own > Reach::kThisNetwork) return Reach::kThisNetwork;
  const Reach seen = std::max({own, context_.peers.farthest(), Reach::kThisMachine});
  if (seen >= farthest_ || now - farthest_at_ >= kFarthestKept) {
    farthest_ = seen;
    farthest_at_ = now;
  }
  return farthest_;
}

// The raised incarnation carries the claim past what others know.
void Membership::claim_reach(Instant now) {
  const bool dialable = reached_from_ >= reach_wanted(now);
  if (dialable == self_.dialable || now < next_claim_) return;
  next_claim_ = now + kIntervalsPerAnnouncement * context_.config.ping_interval;
  const PeerRecord before = self_;
  self_.dialable = dialable;
  self_.forwards = dialable && context_.config.relay.volunteer;
  if (!renew()) self_ = before;
  context_.dialable = self_.dialable;
}

void Membership::announce(Instant now, const BoundedList<PeerId, kRelaysMax>& relays) {
  if (relays == self_.relays || now < next_announcement_) return;
  next_announcement_ = now + kIntervalsPerAnnouncement * context_.config.ping_interval;
  const PeerRecord before = self_;
  self_.relays = relays;
  if (!renew()) self_ = before;
}

void Membership::on_ping(Instant now, PeerId from, const Ping& message) {
  read(now, from, message);
  Pong pong;
  pong.nonce = message.nonce;
  fill(now, from, pong);
  context_.send(from, pong);
}

void Membership::on_pong(Instant now, PeerId from, const Pong& message) {
  context_.paces.on_answered(now, from, message.nonce);
  read(now, from, message);
}

void Membership::on_leave(Instant now, PeerId from, const Leave& message) {
  const Peer* peer = context_.peers.find(from);
  const PeerRecord& gone = message.self;
  if (gone.health != Health::kLeft || process_of(gone) != process_of(peer->record)) {
    context_.refuse_message();
    return;
  }
  learn(now, from, gone);
}

// No proof of anything, but a reason to look.
void Membership::on_send_failed(Instant now, PeerId to) {
  Peer* peer = context_.peers.find(to);
  if (peer == nullptr || !peer->welcomed) return;
  if (peer->relay != PeerId{}) context_.take_other_relay(*peer);
  probe(now, *peer);
}

void Membership::note_heard(Instant now, PeerId from) {
  Peer* peer = context_.peers.find(from);
  if (peer != nullptr && peer->welcomed) note_life(now, *peer);
}

bool Membership::admit(Instant now, PeerId from) {
  Peer* peer = context_.peers.find(from);
  if (peer != nullptr && peer->welcomed) {
    note_life(now, *peer);
    return true;
  }
  context_.refuse_message();
  // It takes us for a partner and we do not know why: a greeting clears that up.
  if (peer != nullptr && peer->record.health != Health::kLeft && now >= peer->greet_again) {
    greet(now, *peer);
  }
  return false;
}

// A sample forgets whom it has no line to, and who was forgotten cannot know. What it asks is
// whether we live, and silence would be an answer.
void Membership::on_strange_ping(PeerId from, const Ping& ping) {
  if (!context_.peers.nearly_full() || context_.peers.find(from) != nullptr) return;
  Pong pong;
  pong.nonce = ping.nonce;
  context_.emit(Reply{from, pong});
}

void Membership::leave() {
  std::set<PeerId> told;
  for (const PeerId id : context_.lines) {
    if (is_present(context_.peers.find(id)->record.health)) told.insert(id);
  }
  for (const auto& [id, peer] : context_.peers.rows()) {
    if (told.size() >= kToldOfLeaving) break;
    if (peer.welcomed && is_present(peer.record.health)) told.insert(id);
  }
  PeerRecord gone = self_;
  gone.health = Health::kLeft;
  gone.signature = seal_.sign(sealed_text(run_.run, gone));
  for (const PeerId id : told) context_.send(id, Leave{gone});
}

void Membership::note_life(Instant now, Peer& peer) {
  peer.last_heard = now;
  peer.unanswered = false;
  if (context_.through == PeerId{}) {
    peer.heard_directly = now;
  } else {
    peer.heard_through = context_.through;
  }
  peer.alive_at = now;
  peer.proved_at = now;
  const PeerId id = peer.record.key.id;
  if (const auto probe = probes_.answered(id); probe && probe->asked == 0) health_.good();
  for (const ProbeDuty& duty : probes_.duties_done(id)) {
    context_.send(duty.asker, PingAnswer{duty.nonce, id, true});
  }
}

void Membership::on_pause(Duration by) {
  context_.peers.shift(by);
  probes_.shift(by);
  suspicion_timers_.shift(by);
  watch_.shift(by);
  if (orphaned_since_) *orphaned_since_ += by;
  context_.paces.forget_questions();
  health_.bad(2);
}

void Membership::on_late(Duration by) {
  probes_.shift(by);
  suspicion_timers_.shift(by);
  health_.bad(1);
}

Instant Membership::next_deadline() const {
  Instant next = next_tick_;
  for (const auto& other : {probes_.next_deadline(), suspicion_timers_.next()}) {
    if (other) next = std::min(next, *other);
  }
  return next;
}

std::vector<PeerId> Membership::take_lost() { return std::exchange(lost_, {}); }
std::vector<PeerId> Membership::take_found() { return std::exchange(found_, {}); }

double Membership::swarm_size() const {
  const auto present = static_cast<double>(context_.peers.present());
  return 1 + (context_.peers.full() ? present / known_share_ : present);
}

std::optional<RefuseReason> Membership::incompatible(const RunIdentity& theirs) const {
  if (!common_version(run_.versions, theirs.versions)) return RefuseReason::kProtocol;
  if (theirs.run != run_.run) return RefuseReason::kRun;
  if (theirs.model != run_.model) return RefuseReason::kModel;
  if (theirs.layout != run_.layout) return RefuseReason::kLayout;
  return std::nullopt;
}

Membership::Seed* Membership::seed_of(PeerId id) {
  const auto found =
      std::find_if(seeds_.begin(), seeds_.end(), [id](const Seed& seed) { return seed.id == id; });
  return found == seeds_.end() ? nullptr : &*found;
}

// The user hears of a refusal once per reason and kRefusedFor, however often it is said.
void Membership::report_refusal(Instant now, const Refused& event, PeerId from) {
  const auto found = reported_.find({from, event.reason});
  if (found != reported_.end() && now - found->second < kRefusedFor) return;
  if (found == reported_.end() && reported_.size() >= kSeedsMax) {
    const auto oldest = std::min_element(
        reported_.begin(), reported_.end(),
        [](const auto& left, const auto& right) { return left.second < right.second; });
    // Keys cost nothing: a flood of strangers must not become a flood of lines.
    if (event.by_us && now - oldest->second < kRefusedFor) return;
    reported_.erase(oldest);
  }
  reported_[{from, event.reason}] = now;
  context_.emit(event);
}

void Membership::assert_invariants() const {
  probes_.assert_invariants();
  STARLING_ASSERT(seeds_.size() <= kSeedsMax);
  STARLING_ASSERT(reported_.size() <= kSeedsMax);
  STARLING_ASSERT(clipped_.size() <= kClippedMax);
  STARLING_ASSERT(suspects_.size() <= context_.peers.rows().size());
  STARLING_ASSERT(suspicion_timers_.size() <= suspects_.size());
}

}  // namespace starling::gossip
