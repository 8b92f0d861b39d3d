// What of Membership rides on messages, and what is believed of it.
#include <algorithm>
#include <vector>

#include "gossip/membership.h"

namespace starling::gossip {
namespace {

// Records behind the estimate of the share of the swarm that is known here.
constexpr std::uint32_t kRecordsCounted = 1024;
// Seconds that somebody may have missed: thirty years.
constexpr double kMissedMax = 1e9;

}  // namespace

template <class PingOrPong>
void Membership::read(Instant now, PeerId from, const PingOrPong& message) {
  if (context_.conduct.muted(now, from)) return;  // it lives; more we do not want to hear of it
  for (const PeerRecord& record : message.records) {
    learn(now, from, record);
    if (context_.conduct.muted(now, from)) return;  // it was forged
  }
  for (const PeerAge& age : message.ages) context_.peers.note_age(now, age);
  const auto is_live = [this](const PeerKey& process) { return context_.is_live(process); };
  for (const TokenEntry& entry : message.tokens) {
    if (!context_.counts(entry.key.id)) continue;
    if (context_.tokens.merge(now, entry, is_live) != TokenMap::Heard::kForged) continue;
    context_.reject(now, from, RejectReason::kForged);
    return;
  }
  weigh(now);
}
template void Membership::read(Instant, PeerId, const Ping&);
template void Membership::read(Instant, PeerId, const Pong&);

template <class PingOrPong>
void Membership::fill(Instant now, PeerId reader, PingOrPong& message) {
  if (self_tell_left_ > 0) {
    --self_tell_left_;
    STARLING_ASSERT(message.records.try_push(self_));
  }
  context_.peers.fill(message.records, now, reader, context_.rng);
  context_.peers.fill_ages(message.ages, now, reader, context_.rng);
  context_.tokens.fill(now, message.tokens, context_.rng);
}
template void Membership::fill(Instant, PeerId, Ping&);
template void Membership::fill(Instant, PeerId, Pong&);

// What of a rumor can be taken for true: what its subject signed, and of a death no more than that
// somebody doubts the life. Everybody buries by himself. Empty: nothing new, or forged.
std::optional<PeerRecord> Membership::believed(Instant now, PeerId from, const PeerRecord& rumor) {
  const Peer* known = context_.peers.find(rumor.key.id);
  if (known == nullptr && is_gone(rumor.health)) return std::nullopt;
  const bool same = known != nullptr && rumor.key == known->record.key;
  if (known != nullptr && !same && !supersedes(rumor, known->record)) return std::nullopt;
  if (same && known->record.health == Health::kLeft) return std::nullopt;
  PeerRecord record = rumor;
  if (same && rumor.health != Health::kLeft) {
    record = of_one_life(rumor, known->record);
  } else if (!is_vouched(rumor)) {
    context_.reject(now, from, RejectReason::kForged);
    return std::nullopt;
  }
  const bool present = known != nullptr && is_present(known->record.health);
  if (present && record.health == Health::kDead) record.health = Health::kSuspect;
  return record;
}

// A rumor of what is known already: its subject said nothing else since. If it has signed two
// things, one of them is believed by all, and that it is doubted does not end with that.
PeerRecord Membership::of_one_life(const PeerRecord& rumor, const PeerRecord& known) const {
  if (outranks(rumor, known) && is_vouched(rumor)) {
    PeerRecord record = rumor;
    if (known.health <= rumor.health) return record;
    record.health = known.health;
    record.accuser = known.accuser;
    return record;
  }
  PeerRecord record = known;  // as signed
  record.health = rumor.health;
  record.accuser = rumor.accuser;
  record.age_s = rumor.age_s;
  return record;
}

// A rumor about somebody. Most say what is known, and cost no more than finding that out.
void Membership::learn(Instant now, PeerId from, const PeerRecord& rumor) {
  if (rumor.key.id == PeerId{} || !context_.counts(rumor.key.id)) return;
  if (rumor.key.id == context_.self.id) {
    deny(now, from, rumor);
    return;
  }
  if (rumor.health == Health::kAlive) {
    const Peer* as_known = context_.peers.find(rumor.key.id);
    const bool same = as_known != nullptr && as_known->record.key == rumor.key;
    if (same && !outranks(rumor, as_known->record)) {
      context_.peers.note_age(now, {rumor.key.id, rumor.age_s});
      return;
    }
  }
  const auto record = believed(now, from, rumor);
  if (!record) return;
  const Peer* before = context_.peers.find(record->key.id);
  const Health health_before = before == nullptr ? Health::kAlive : before->record.health;
  const PeerRecord known = before == nullptr ? *record : before->record;
  const PeerTable::Change change = merge(now, *record);
  Peer* peer = context_.peers.find(record->key.id);
  if (peer == nullptr) return;
  const bool moved = peer->record.address != known.address ||
                     peer->record.dialable != known.dialable || peer->record.relays != known.relays;
  if (moved && peer->connected) context_.connect(*peer);
  const bool told = change == PeerTable::Change::kHealth || change == PeerTable::Change::kProcess;
  if (told) note_change(now, change, health_before, *peer);
  if (record->health == Health::kSuspect && record->key == peer->record.key) {
    if (change == PeerTable::Change::kNew) note_change(now, change, Health::kSuspect, *peer);
    const bool anew =
        known.health == Health::kSuspect && known.key.incarnation < record->key.incarnation;
    if (anew && !told) arm_suspicion(now, *peer);  // it denied the one that we know
    doubt(now, *peer, record->accuser);
  }
  const bool news = told || change == PeerTable::Change::kNew;
  const bool few = context_.lines.size() < context_.config.connections_max;
  if (!news || !few || peer->welcomed || is_gone(peer->record.health)) return;
  if (budget_.greetings == 0 || now < peer->greet_again) return;
  if (!can_greet(*peer)) return;  // it will call
  --budget_.greetings;
  greet(now, *peer);
}

// While the view is a sample: which share of the others' samples do we know too? As samples
// are drawn alike and independently, that is the share of the swarm that a sample holds (mark and
// recapture).
void Membership::count_strangers(const PeerRecord& record) {
  if (!context_.peers.full()) {
    records_counted_ = 0;
    known_share_ = 1;
    return;
  }
  if (is_gone(record.health) || !context_.counts(record.key.id)) return;
  records_counted_ = std::min(records_counted_ + 1, kRecordsCounted);
  const double known = context_.peers.find(record.key.id) != nullptr ? 1 : 0;
  known_share_ += (known - known_share_) / static_cast<double>(records_counted_ + 1);
  known_share_ = std::max(known_share_, 1.0 / kRecordsCounted);
}

// A later process that signs with our key: another one runs on a copy of it, or this one began from
// an old copy of its folder. Others turn to whoever began last, so the operator has to know. Nobody
// without the key can bring this about. True: it is signed.
bool Membership::tell_of_twin(Instant now, const PeerRecord& rumor) {
  if (told_of_twin(now)) return true;
  if (rumor.address.key != self_.address.key || !is_vouched(rumor)) return false;
  report_refusal(now, {rumor.address, RefuseReason::kSelf, run_, run_, true}, context_.self.id);
  return true;
}

bool Membership::told_of_twin(Instant now) const {
  const auto told = reported_.find({context_.self.id, RefuseReason::kSelf});
  return told != reported_.end() && now - told->second < kRefusedFor;
}

// The signature is checked on the word of somebody who need be nobody: as of greetings, so often.
void Membership::on_strange_records(Instant now, PeerId from, const Records& message) {
  const auto twin = std::find_if(
      message.records.begin(), message.records.end(), [this](const PeerRecord& record) {
        return record.key.id == context_.self.id && process_of(self_) < process_of(record);
      });
  if (twin == message.records.end() || told_of_twin(now)) return;
  const Peer* known = context_.peers.find(from);
  const bool stranger = known == nullptr || !known->met;
  if (stranger && !greetings_.take(now, from)) {
    context_.refuse_message();
    return;
  }
  if (!tell_of_twin(now, *twin)) context_.reject(now, from, RejectReason::kForged);
  if (stranger && !told_of_twin(now)) greetings_.bar(now, from);
}

void Membership::deny(Instant now, PeerId from, const PeerRecord& rumor) {
  if (process_of(self_) < process_of(rumor)) {
    if (!tell_of_twin(now, rumor)) context_.reject(now, from, RejectReason::kForged);
    return;
  }
  const bool about_us = process_of(rumor) == process_of(self_);
  if (!about_us || rumor.health == Health::kAlive) return;
  if (rumor.key.incarnation < self_.key.incarnation) {  // it missed our denial
    self_tell_left_ = std::max<std::uint8_t>(self_tell_left_, 2);
    return;
  }
  if (rumor.key.incarnation > self_.key.incarnation || rumor.health == Health::kLeft) {
    // We never said so.
    if (!tell_of_twin(now, rumor)) context_.reject(now, from, RejectReason::kForged);
    return;
  }
  if (now < deny_again_) return;  // refutations are not endless; it will be told again
  deny_again_ = now + context_.config.ping_interval / 2;
  static_cast<void>(renew());
  health_.suspected();
}

// Raises the own record by one refutation, because it says something else now or others do. False:
// there are no more.
bool Membership::renew() {
  const std::uint64_t refutations = refutations_of(self_) + 1;
  if (refutations >> kRefutationBits != 0) return false;
  self_.key = record_key(context_.self, refutations);
  seal_self();
  return true;
}

void Membership::seal_self() {
  self_.signature = seal_.sign(sealed_text(run_.run, self_));
  self_tell_left_ = context_.peers.tell_times();
  context_.introduction = hello();
}

bool Membership::is_vouched(const PeerRecord& record) const {
  return seal_.verify(record.address.key, sealed_text(run_.run, record), record.signature);
}

// The table has taken a record that changes what the rest of the core should think of a peer.
void Membership::note_change(Instant now, PeerTable::Change change, Health before, Peer& peer) {
  const PeerId id = peer.record.key.id;
  const Health health = peer.record.health;
  if (change == PeerTable::Change::kProcess) {
    context_.hang_up(peer);
    lost_.push_back(id);
  }
  const bool gone = is_gone(health);
  if (gone && peer.welcomed) {
    peer.welcomed = false;
    peer.greet_again = now + context_.config.redial_interval;
    context_.hang_up(peer);
    lost_.push_back(id);
  }
  if (gone && is_present(before)) static_cast<void>(probes_.answered(id));
  if (peer.met_once && health == Health::kDead && is_present(before)) watch_.on_lost(now, id);
  if (peer.met_once && is_present(health) && before == Health::kDead) watch_.on_found(now, id);
  // Before what is said for it: one back from the dead is warned as the living are.
  if (change != PeerTable::Change::kNew) context_.emit(PeerChanged{peer.record});
  if (health == Health::kSuspect) {
    suspects_.insert(id);
    peer.accusers.clear();
    arm_suspicion(now, peer);
    warn(now, peer);
  } else {
    suspects_.erase(id);
    suspicion_timers_.clear(id);
  }
}

// Nobody else is told that they are gone: others may go by another list.
void Membership::on_members() {
  std::vector<PeerId> unlisted;
  for (const auto& [id, peer] : context_.peers.rows()) {
    if (!context_.counts(id)) unlisted.push_back(id);
  }
  for (const PeerId id : unlisted) {
    Peer& peer = *context_.peers.find(id);
    if (peer.welcomed) lost_.push_back(id);
    peer.welcomed = false;
    context_.hang_up(peer);
    static_cast<void>(probes_.answered(id));
    suspects_.erase(id);
    suspicion_timers_.clear(id);
    watch_.on_struck_off(id, peer.met_once && is_present(peer.record.health));
    context_.peers.forget(id);
  }
}

PeerTable::Change Membership::merge(Instant now, const PeerRecord& record) {
  const PeerTable::Change change = context_.peers.merge(now, record, context_.rng);
  if (const PeerId given_up = context_.peers.take_given_up(); given_up != PeerId{}) {
    suspects_.erase(given_up);
    suspicion_timers_.clear(given_up);
  }
  return change;
}

void Membership::set_health(Instant now, Peer& peer, Health health, PeerId accuser) {
  // As old as it is: what we think of it is no sign of its life.
  PeerRecord record = PeerTable::told(peer, now);
  const Health before = record.health;
  record.health = health;
  record.accuser = accuser;
  const PeerTable::Change change = context_.peers.merge(now, record, context_.rng);
  if (change != PeerTable::Change::kNone) note_change(now, change, before, peer);
}

// Is this peer far behind the others? Answered once, by the first news that tells of them. Whoever
// has signed that it trained counts, also while its record has not come: the first one met may be a
// newcomer itself.
void Membership::weigh(Instant now) {
  if (context_.newcomer.decided() || !may_judge_age(now)) return;
  const TokenShares shares = context_.token_shares(now);
  std::vector<double> known;  // also of those we have yet to meet: the first may be a liar
  std::vector<double> trained;
  for (const TokenShares::Share& share : shares.all()) {
    known.push_back(share.tokens);
    const Peer* peer = context_.peers.find(share.peer);
    // Of whom the checkpoint tells alone may be gone for weeks.
    const bool is_there = peer != nullptr ? is_present(peer->record.health)
                                          : share.tokens > context_.tokens.restored_of(share.peer);
    if (is_there) trained.push_back(share.tokens);
  }
  if (trained.empty() && context_.awaits_trained) return;  // only newcomers so far
  const auto own = static_cast<double>(context_.tokens.in_own_weights());
  const auto threshold = static_cast<double>(context_.config.newcomer_tokens);
  const double most = upper_quartile(known);
  double sum = 0;
  for (const double tokens : trained) sum += std::min(tokens, most);
  const double mean = trained.empty() ? 0 : sum / static_cast<double>(trained.size());
  context_.newcomer.decide(own, mean, threshold);
  weigh_age(now);
  context_.note_footing();
}

// The first that is heard may be a liar, and in no large swarm do all tell of themselves at once.
bool Membership::may_judge_age(Instant now) {
  const std::size_t known = context_.tokens.restored_others();
  if (known == 0) return true;
  if (!first_news_) first_news_ = now;
  const bool late = now - *first_news_ >= Newcomer::kAgeWithin;
  const std::size_t heard = context_.tokens.missed().size();
  context_.judges_age = !late && (heard == 0 || (known > 1 && 2 * heard <= known));
  return !context_.judges_age;
}

// What was restored may be old: those that it knew, and that are here, have trained on for longer
// than this peer since. By their median, the lower one, for one of two may be a liar; and for no
// longer than ago it was written, whoever says what, which also stands for what was told late.
void Membership::weigh_age(Instant now) {
  std::vector<double> seconds;
  for (const TokenMap::Missed& missed : context_.tokens.missed()) {
    const Peer* peer = context_.peers.find(missed.peer);
    if (peer != nullptr && is_present(peer->record.health)) seconds.push_back(missed.seconds);
  }
  double missed = 0;
  if (!seconds.empty()) {
    const auto median = seconds.begin() + (std::ssize(seconds) - 1) / 2;
    std::nth_element(seconds.begin(), median, seconds.end());
    missed = std::max(*median - context_.tokens.seconds_trained(), 0.0);
  }
  if (const auto written = context_.restored_age.written) {
    missed = std::min(missed, std::max(to_seconds(now - *written), 0.0));
  }
  missed = std::min(missed + context_.restored_age.missed, kMissedMax);
  context_.freshness.begin_late(missed);
  if (missed > to_seconds(context_.config.missed_max)) context_.newcomer.fall_behind();
}

// A newcomer is pulled until it has met some who have trained far more. If there are none any more,
// and stay away for kOrphanedAfter, those that are left are the swarm.
void Membership::look_for_trained(Instant now) {
  if (!context_.newcomer.pulled()) return;
  const TokenShares shares = context_.token_shares(now);
  // Others may have trained far more than we have also where we train on with their weights.
  const auto own = static_cast<double>(context_.tokens.trained_here());
  const double behind = std::max(static_cast<double>(context_.config.newcomer_tokens), 2 * own);
  const bool company = context_.peers.count(Health::kAlive) > 0;
  const bool trained =
      std::any_of(shares.all().begin(), shares.all().end(), [&](const TokenShares::Share& share) {
        const Peer* peer = context_.peers.find(share.peer);
        return peer != nullptr && is_present(peer->record.health) && share.tokens > behind;
      });
  if (trained || !company) {
    orphaned_since_.reset();
  } else if (!orphaned_since_) {
    orphaned_since_ = now;
  }
  context_.newcomer.set_orphaned(orphaned_since_ && now - *orphaned_since_ >= kOrphanedAfter);
  context_.note_footing();
}

// Whoever says too much is told to the operator, who can take it off the allow-list.
void Membership::look_at_tokens(Instant now) {
  if (now < next_look_at_tokens_) return;
  next_look_at_tokens_ = now + kLookAtTokensEvery;
  look_for_trained(now);
  const TokenShares shares = context_.token_shares(now);
  for (const TokenShares::Share& share : shares.clipped()) {
    if (clipped_.size() >= kClippedMax || !clipped_.insert(share.peer).second) continue;
    ++context_.stats.peers_clipped;
    context_.emit(TokensClipped{share.peer, share.tokens, shares.limit()});
  }
}

}  // namespace starling::gossip
