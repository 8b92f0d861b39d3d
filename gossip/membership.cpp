#include "gossip/membership.h"

#include <algorithm>
#include <utility>

namespace starling::gossip {
namespace {

// Within this long after a greeting, an answer from a stranger is taken for its answer.
constexpr Duration kAnswerWindow = std::chrono::seconds(2);

bool is_present(Health health) { return health == Health::kAlive || health == Health::kSuspect; }

bool is_valid(const PeerRecord& record) {
  if (record.key.id == PeerId{} || record.address.host.empty()) return false;
  return record.address.control_port != 0;
}

}  // namespace

Membership::Membership(CoreContext& context, const CoreIdentity& identity, Instant now)
    : context_(context), self_(identity.self), run_(identity.run), next_redial_(now) {
  self_.key = record_key(identity.self.key, 0);
  self_.health = Health::kAlive;
  const auto interval = static_cast<std::uint64_t>(context_.config.ping_interval.count());
  STARLING_ASSERT(interval > 0);
  // A random phase, so that peers started together do not ping together.
  next_tick_ = now + Duration(static_cast<Duration::rep>(context_.rng.below(interval)));
}

void Membership::on_join(Instant now, std::span<const PeerAddress> seeds) {
  for (const PeerAddress& address : seeds) {
    if (address.host.empty() || address == self_.address) continue;
    const bool known = std::any_of(seeds_.begin(), seeds_.end(),
                                   [&](const Seed& seed) { return seed.address == address; });
    if (known || seeds_.size() >= kSeedsMax) continue;
    seeds_.push_back({address, {}, now, now, false, now});
  }
  greet_some(now);
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
    context_.emit(SendRefusal{record.address, {*reason, run_}});
    report_refusal(now, {record.address, *reason, run_, message.identity, true}, from);
    return;
  }
  const Peer* known = context_.peers.find(from);
  const bool was_welcome = known != nullptr && known->welcomed;
  if (!meet(now, from, record)) return;
  Peer& peer = *context_.peers.find(from);
  context_.send(from, Welcome{self_, run_});
  // The first news, and word of any rumor that the greeter should deny.
  if (!was_welcome || peer.record.health != Health::kAlive) ping(now, peer);
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
  if (Seed* seed = answering_seed(now, from, &message.self.address)) {
    seed->id = from;
    seed->pending = false;
  }
  if (!meet(now, from, message.self)) return;
  ping(now, *context_.peers.find(from));
}

// One of the same run has introduced itself. False if the introduction is outdated.
bool Membership::meet(Instant now, PeerId from, const PeerRecord& introduced) {
  PeerRecord record = introduced;
  record.health = Health::kAlive;
  const Peer* known = context_.peers.find(from);
  const bool outdated = known != nullptr && process_of(record) < process_of(known->record);
  const bool has_left = known != nullptr && known->record.health == Health::kLeft &&
                        !supersedes(record, known->record);
  if (outdated || has_left) {
    context_.refuse_message();
    return false;
  }
  const PeerTable::Change change = context_.peers.merge(now, record);
  Peer* peer = context_.peers.find(from);
  if (peer == nullptr) {  // the table is full
    context_.refuse_message();
    return false;
  }
  const bool changed =
      change == PeerTable::Change::kProcess || change == PeerTable::Change::kHealth;
  if (changed) note_change(now, change, *peer);
  peer->last_heard = now;
  peer->unanswered_since.reset();
  if (peer->welcomed) return true;
  peer->welcomed = true;
  context_.emit(Connect{from, peer->record.address});
  if (!changed && is_present(peer->record.health)) context_.emit(PeerChanged{peer->record});
  found_.push_back(from);
  return true;
}

void Membership::on_refuse(Instant now, PeerId from, const Refuse& refuse) {
  Refused event{{}, refuse.reason, run_, refuse.identity, false};
  if (Seed* seed = answering_seed(now, from, nullptr)) {
    seed->pending = false;
    seed->refused_until = now + kRefusedFor;
    event.address = seed->address;
  }
  if (Peer* peer = context_.peers.find(from)) {
    if (peer->welcomed) {  // it has agreed before: a refusal now is late or a lie
      context_.refuse_message();
      return;
    }
    peer->refused_until = now + kRefusedFor;
    event.address = peer->record.address;
  }
  report_refusal(now, event, from);
}

void Membership::on_ping(Instant now, PeerId from, const Ping& message) {
  read(now, message.records, message.tokens);
  Pong pong;
  pong.nonce = message.nonce;
  fill(from, pong.records, pong.tokens);
  context_.send(from, pong);
}

void Membership::on_pong(Instant now, PeerId, const Pong& message) {
  read(now, message.records, message.tokens);
}

void Membership::on_leave(Instant now, PeerId from, const Leave& message) {
  Peer* peer = context_.peers.find(from);
  const PeerRecord rumor{message.key, peer->record.address, Health::kLeft};
  if (message.key.id != from || process_of(rumor) != process_of(peer->record)) {
    context_.refuse_message();
    return;
  }
  if (message.key.incarnation > peer->record.key.incarnation) peer->record.key = message.key;
  set_health(now, *peer, Health::kLeft);
}

// No proof of anything, but a reason to look.
void Membership::on_send_failed(Instant now, PeerId to) {
  Peer* peer = context_.peers.find(to);
  if (peer != nullptr && peer->welcomed && !peer->unanswered_since) peer->unanswered_since = now;
}

bool Membership::admit(Instant now, PeerId from) {
  Peer* peer = context_.peers.find(from);
  if (peer != nullptr && peer->welcomed) {
    peer->last_heard = now;
    peer->unanswered_since.reset();
    return true;
  }
  context_.refuse_message();
  // It takes us for a partner and we do not know why: a greeting clears that up.
  if (peer != nullptr && peer->record.health != Health::kLeft && now >= peer->greet_again) {
    greet(now, *peer);
  }
  return false;
}

void Membership::leave() {
  for (const auto& [id, peer] : context_.peers.rows()) {
    if (peer.welcomed && is_present(peer.record.health)) context_.send(id, Leave{self_.key});
  }
}

void Membership::shift(Duration by) { context_.peers.shift(by); }

std::vector<PeerId> Membership::take_lost() { return std::exchange(lost_, {}); }
std::vector<PeerId> Membership::take_found() { return std::exchange(found_, {}); }

std::optional<RefuseReason> Membership::incompatible(const RunIdentity& theirs) const {
  if (theirs.protocol != run_.protocol) return RefuseReason::kProtocol;
  if (theirs.run != run_.run) return RefuseReason::kRun;
  if (theirs.model != run_.model) return RefuseReason::kModel;
  if (theirs.layout != run_.layout) return RefuseReason::kLayout;
  return std::nullopt;
}

// The seed whose greeting `from` probably answers. A refusal does not name the address it came
// from: it is charged to a seed only if no other greeting is open.
Membership::Seed* Membership::answering_seed(Instant now, PeerId from, const PeerAddress* address) {
  Seed* only = nullptr;
  for (Seed& seed : seeds_) {
    if (address != nullptr && seed.address == *address) return &seed;
    if (seed.id == from && from != PeerId{}) return &seed;
    if (!seed.pending || now - seed.greeted_at > kAnswerWindow) continue;
    if (only != nullptr) return nullptr;
    only = &seed;
  }
  return only;
}

// The user hears of a refusal once per kRefusedFor, however often it is said.
void Membership::report_refusal(Instant now, const Refused& event, PeerId from) {
  const auto found = reported_.find(from);
  if (found != reported_.end() && now - found->second < kRefusedFor) return;
  if (found == reported_.end() && reported_.size() >= kSeedsMax) {
    reported_.erase(std::min_element(
        reported_.begin(), reported_.end(),
        [](const auto& left, const auto& right) { return left.second < right.second; }));
  }
  reported_[from] = now;
  context_.emit(event);
}

}  // namespace starling::gossip
