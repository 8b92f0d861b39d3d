// Membership, third part: what rides on messages, and what happens on every tick.
#include <algorithm>
#include <cmath>
#include <vector>

#include "gossip/membership.h"

namespace starling::gossip {
namespace {

constexpr std::uint32_t kGreetingsPerTick = 8;
constexpr std::uint32_t kWarningsPerTick = 4;
constexpr std::uint32_t kSyncsPerTick = 4;
constexpr std::uint32_t kSuspectsWarned = 2;  // of those known, every tick
constexpr int kDraws = 16;
constexpr double kGreetersOfSeed = 8;
// Views are compared every so many ticks; at once again as long as they differ. Samples, and the
// token sketch that only matters beside them, move on more often.
constexpr std::uint32_t kTicksPerSync = 10;
constexpr std::uint32_t kTicksPerSwap = 4;
constexpr std::size_t kRecordsPerSync = 4 * kRecordsMax;
// The longer a peer has been dead, the rarer it is greeted.
constexpr Duration kRedialMost = std::chrono::minutes(1);
// Records behind the estimate of the share of the swarm that is known here.
constexpr std::uint32_t kRecordsCounted = 1024;

}  // namespace

void Membership::on_deadline(Instant now) {
  ask_others(now);
  judge_silent(now);
  answer_askers(now);
  bury(now);
  if (now >= next_tick_) tick(now);
}

void Membership::tick(Instant now) {
  next_tick_ = now + health_.stretch(context_.config.ping_interval);
  budget_ = {kGreetingsPerTick, kWarningsPerTick, kSyncsPerTick};
  probe_next(now);
  for (std::uint32_t i = 0; i < kSuspectsWarned && !suspects_.empty(); ++i) {
    auto suspect = suspects_.lower_bound(PeerId{context_.rng.next()});
    if (suspect == suspects_.end()) suspect = suspects_.begin();
    warn(now, *context_.peers.find(*suspect));
  }
  greet_seeds(now);
  greet_some(now);
  test_dialling(now);
  if (ticks_to_sync_ == 0) {
    ticks_to_sync_ = context_.peers.full() ? kTicksPerSwap : kTicksPerSync;
    compare_views(now);
  }
  --ticks_to_sync_;
  watch(now);
}

void Membership::read(Instant now, const BoundedList<PeerRecord, kRecordsMax>& records,
                      const BoundedList<TokenEntry, kTokensMax>& tokens) {
  for (const PeerRecord& record : records) learn(now, record);
  for (const TokenEntry& entry : tokens) {
    if (!context_.tokens.merge(now, entry)) continue;
  }
  weigh();
}

void Membership::fill(Instant now, PeerId reader, BoundedList<PeerRecord, kRecordsMax>& records,
                      BoundedList<TokenEntry, kTokensMax>& tokens) {
  STARLING_ASSERT(records.try_push(self_));
  context_.peers.fill(records, now, reader, context_.rng);
  context_.tokens.fill(tokens, context_.rng);
}

// A rumor about somebody.
void Membership::learn(Instant now, const PeerRecord& rumor) {
  if (rumor.key.id == PeerId{}) return;
  if (rumor.key.id == context_.self.id) {
    deny(rumor);
    return;
  }
  PeerRecord record = rumor;
  const Peer* before = context_.peers.find(record.key.id);
  const Health health_before = before == nullptr ? Health::kAlive : before->record.health;
  if (before != nullptr && record.health == Health::kDead &&
      process_of(record) == process_of(before->record) && is_present(health_before) &&
      now - before->last_heard < suspicion().least) {
    // Nobody is dead whom we heard just now; but it should learn what is said of it.
    record.health = Health::kSuspect;
  }
  const PeerRecord known = before == nullptr ? record : before->record;
  const PeerTable::Change change = context_.peers.merge(now, record, context_.rng);
  Peer* peer = context_.peers.find(record.key.id);
  if (peer == nullptr) return;
  const bool moved =
      peer->record.address != known.address || peer->record.dialable != known.dialable;
  if (moved && peer->connected) context_.connect(*peer);
  const bool told = change == PeerTable::Change::kHealth || change == PeerTable::Change::kProcess;
  if (told) note_change(now, change, health_before, *peer);
  if (record.health == Health::kSuspect && record.key == peer->record.key) {
    if (change == PeerTable::Change::kNew) note_change(now, change, Health::kSuspect, *peer);
    doubt(now, *peer, record.accuser);
  }
  const bool news = told || change == PeerTable::Change::kNew;
  const bool few = context_.lines.size() < context_.config.connections_max;
  if (!news || !few || peer->welcomed || is_gone(peer->record.health)) return;
  if (budget_.greetings == 0 || now < peer->greet_again) return;
  if (!peer->record.dialable) return;  // it will call
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
  if (is_gone(record.health)) return;
  records_counted_ = std::min(records_counted_ + 1, kRecordsCounted);
  const double known = context_.peers.find(record.key.id) != nullptr ? 1 : 0;
  known_share_ += (known - known_share_) / static_cast<double>(records_counted_ + 1);
  known_share_ = std::max(known_share_, 1.0 / kRecordsCounted);
}

void Membership::deny(const PeerRecord& rumor) {
  const bool about_us = rumor.key.incarnation >> kRefutationBits == context_.self.incarnation;
  if (!about_us || rumor.health == Health::kAlive) return;
  if (rumor.key.incarnation < self_.key.incarnation) return;
  static_cast<void>(renew(refutations_of(rumor) + 1));
  health_.bad(1);
}

// Raises the own record to so many refutations. False: there are no more.
bool Membership::renew(std::uint64_t refutations) {
  if (refutations >> kRefutationBits != 0) return false;
  self_.key = record_key(context_.self, refutations);
  context_.introduction = hello();
  return true;
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
  if (health == Health::kDead && is_present(before)) watch_.on_lost(now);
  if (is_present(health) && before == Health::kDead) watch_.on_found(now);
  if (health == Health::kSuspect) {
    suspects_.insert(id);
    peer.accusers.clear();
    arm_suspicion(now, peer);
    warn(now, peer);
  } else {
    suspects_.erase(id);
    suspicion_timers_.clear(id);
  }
  if (change != PeerTable::Change::kNew) context_.emit(PeerChanged{peer.record});
}

void Membership::set_health(Instant now, Peer& peer, Health health, PeerId accuser) {
  PeerRecord record = peer.record;
  const Health before = record.health;
  record.health = health;
  record.accuser = accuser;
  const PeerTable::Change change = context_.peers.merge(now, record, context_.rng);
  if (change != PeerTable::Change::kNone) note_change(now, change, before, peer);
}

// Is this peer far behind the others? Answered once, by the first news that tells of them.
void Membership::weigh() {
  if (context_.newcomer.decided()) return;
  double sum = 0;
  double peers = 0;
  for (const auto& [id, peer] : context_.peers.rows()) {
    const auto tokens = static_cast<double>(context_.tokens.total_of(id));
    if (!is_present(peer.record.health) || tokens <= 0) continue;
    sum += tokens;
    peers += 1;
  }
  if (peers == 0 && context_.awaits_trained) return;  // only newcomers so far
  const auto own = static_cast<double>(context_.tokens.in_own_weights());
  const auto threshold = static_cast<double>(context_.config.newcomer_tokens);
  context_.newcomer.decide(own, peers > 0 ? sum / peers : 0, threshold);
}

void Membership::ping(Instant now, Peer& peer) {
  Ping message;
  message.nonce = next_nonce_++;
  fill(now, peer.record.key.id, message.records, message.tokens);
  if (is_warm(now, peer)) context_.paces.on_asked(now, peer.record.key.id, message.nonce);
  context_.send(peer.record.key.id, message);
}

void Membership::greet(Instant now, Peer& peer) {
  if (now < peer.refused_until) return;
  const Duration redial = context_.config.redial_interval;
  const bool dead = peer.record.health == Health::kDead;
  const Duration rest = std::min(kRedialMost, Duration((now - peer.health_since) / 4));
  peer.greet_again = now + (dead ? std::max(redial, rest) : redial);
  context_.emit(Greet{peer.record.address, hello()});
}

void Membership::seek(Instant now, Peer& peer) {
  if (peer.record.dialable) greet(now, peer);
}

void Membership::greet_seeds(Instant now) {
  const Duration redial = context_.config.redial_interval;
  for (Seed& seed : seeds_) {
    if (context_.peers.process(seed.id) || now < seed.greet_again || now < seed.refused_until) {
      continue;
    }
    // Uneven, so that peers that lost a seed together do not come back to it together.
    // All of a large swarm together greet it about as often as a small swarm would.
    const double crowd = std::max(1.0, swarm_size() / kGreetersOfSeed);
    const double spread = crowd * (0.75 + 0.5 * context_.rng.unit());
    seed.greet_again = now + from_seconds(to_seconds(redial) * spread);
    context_.emit(Greet{seed.address, hello()});
  }
}

// Those we should know better, as long as we have few lines; and the dead, who may be back.
void Membership::greet_some(Instant now) {
  bool redial = now >= next_redial_;
  const std::size_t rows = context_.peers.rows().size();
  for (std::size_t draws = std::min<std::size_t>(rows, kDraws); draws > 0; --draws) {
    Peer& peer = context_.peers.draw(context_.rng);
    if (peer.welcomed || !peer.record.dialable) continue;
    if (now < peer.greet_again || now < peer.refused_until) continue;
    const bool few = context_.lines.size() < context_.config.connections_max;
    if (is_present(peer.record.health) && few && budget_.greetings > 0) {
      --budget_.greetings;
      greet(now, peer);
    }
    if (peer.record.health == Health::kDead && redial) {
      redial = false;
      next_redial_ = now + context_.config.redial_interval;
      greet(now, peer);
    }
  }
}

// Tells a random partner that was never dialled whether it can be.
void Membership::test_dialling(Instant now) {
  if (now < next_dial_test_) return;
  next_dial_test_ = now + kDialTestEvery;
  std::vector<Peer*> unsure;
  for (auto& [id, peer] : context_.peers.rows()) {
    if (peer.welcomed && !peer.record.dialable && listens(peer.record.address)) {
      unsure.push_back(&peer);
    }
  }
  if (unsure.empty()) return;
  context_.connect(*unsure[static_cast<std::size_t>(context_.rng.below(unsure.size()))]);
}

std::array<std::uint64_t, kBucketsMax> Membership::view_digest() const {
  auto parts = context_.peers.digest();
  parts[PeerTable::part_of(self_.key.id)] ^= PeerTable::digest_of(self_);
  return parts;
}

// Anti-entropy (Demers et al., "Epidemic algorithms for replicated database maintenance", PODC
// 1987): whatever rumors have missed is found by comparing, so that full views become equal.
void Membership::compare_views(Instant now) {
  context_.peers.forget_old(now, context_.rng);
  const std::size_t rows = context_.peers.rows().size();
  for (std::size_t draws = std::min<std::size_t>(rows, kDraws); draws > 0; --draws) {
    const Peer& peer = context_.peers.draw(context_.rng);
    if (!peer.welcomed || peer.record.health != Health::kAlive) continue;
    Digest digest{.answer = false, .buckets = {}, .minima = context_.tokens.sketch().minima()};
    if (!context_.peers.full()) {
      for (const std::uint64_t part : view_digest()) {
        STARLING_ASSERT(digest.buckets.try_push(part));
      }
    }
    context_.send(peer.record.key.id, digest);
    if (context_.peers.full()) swap_sample(now, peer.record.key.id);
    return;
  }
}

void Membership::on_digest(Instant now, PeerId from, const Digest& theirs) {
  static_cast<void>(context_.tokens.sketch().merge(theirs.minima));
  if (budget_.syncs == 0) return;
  --budget_.syncs;
  const bool full_views = theirs.buckets.size() == kBucketsMax && !context_.peers.full();
  Digest ours{.answer = true, .buckets = {}, .minima = context_.tokens.sketch().minima()};
  std::array<bool, kBucketsMax> differs{};
  if (full_views) {
    const auto parts = view_digest();
    for (std::size_t i = 0; i < kBucketsMax; ++i) {
      differs[i] = parts[i] != theirs.buckets[i];
      STARLING_ASSERT(ours.buckets.try_push(parts[i]));
    }
  }
  auto records = context_.peers.of_parts(differs, now, kRecordsPerSync, context_.rng);
  if (differs[PeerTable::part_of(self_.key.id)]) records.push_back(self_);
  for (std::size_t first = 0; first < records.size(); first += kRecordsMax) {
    Records message;
    const std::size_t end = std::min(records.size(), first + kRecordsMax);
    for (std::size_t i = first; i < end; ++i) {
      STARLING_ASSERT(message.records.try_push(records[i]));
    }
    context_.send(from, message);
  }
  if (!records.empty()) ticks_to_sync_ = 0;
  if (theirs.answer) return;
  context_.send(from, ours);
  if (context_.peers.full()) swap_sample(now, from);
}

// A view by sample has nothing to compare; a random part of it is swapped for a part of the
// other's.
void Membership::swap_sample(Instant now, PeerId with) {
  Records message;
  context_.peers.draw_some(message.records, now, with, context_.rng);
  context_.send(with, message);
}

void Membership::on_records(Instant now, PeerId, const Records& message) {
  for (const PeerRecord& record : message.records) {
    count_strangers(record);
    learn(now, record);
  }
}

void Membership::watch(Instant now) {
  const auto change = watch_.look(now, context_.peers.present());
  if (!change) return;
  const auto usual = [this](FragmentId fragment) {
    const FragmentState& state = context_.fragments[fragment.value];
    return state.cold ? 0.0F : state.clip_radius;
  };
  if (change->change == SwarmChange::kHealed) {
    context_.gentle.on_healed(now, usual);
  } else {
    context_.gentle.on_split(now, usual);
  }
  context_.emit(*change);
}

}  // namespace starling::gossip
