// What Membership does on every tick.
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
constexpr int kPeerDraws = 16;
constexpr double kGreetersOfSeed = 8;
constexpr Duration kSeedPauseMax = std::chrono::hours(1);
// Views are compared every so many ticks at the least. Samples, and the token sketch that only
// matters beside them, move on more often.
constexpr std::uint32_t kTicksPerSync = 10;
constexpr std::uint32_t kTicksPerSwap = 4;
constexpr int kAnswerIntervals = 5;  // so many times the ping interval an answer is waited for
constexpr std::uint32_t kTicksPerClaim = 5;  // which looks at all rows
constexpr std::size_t kRecordsPerSync = 4 * kRecordsMax;
// The longer a peer has been dead, the rarer it is greeted.
constexpr Duration kRedialMost = std::chrono::minutes(1);

}  // namespace

void Membership::on_deadline(Instant now) {
  ask_others(now);
  judge_silent(now);
  answer_askers(now);
  bury(now);
  if (now >= next_tick_) tick(now);
  if (first_news_) weigh(now);  // nothing more may come
}

void Membership::tick(Instant now) {
  next_tick_ = now + health_.stretch(context_.config.ping_interval);
  budget_ = {kGreetingsPerTick, kWarningsPerTick, kSyncsPerTick};
  probe_next(now);
  warn_some(now);
  greet_seeds(now);
  greet_some(now);
  test_dialling(now);
  greet_on_trial(now);
  if (ticks_to_claim_ == 0) {
    ticks_to_claim_ = kTicksPerClaim;
    claim_reach(now);
  }
  --ticks_to_claim_;
  if (ticks_to_sync_ == 0) {
    ticks_to_sync_ = context_.peers.full() ? kTicksPerSwap : kTicksPerSync;
    compare_views(now);
  }
  --ticks_to_sync_;
  watch(now);
  look_at_tokens(now);
}

void Membership::warn_some(Instant now) {
  const double drawn_from = static_cast<double>(suspects_.size()) / kSuspectsWarned;
  for (std::uint32_t i = 0; i < kSuspectsWarned && !suspects_.empty(); ++i) {
    const auto place = static_cast<std::ptrdiff_t>(context_.rng.below(suspects_.size()));
    const PeerId suspect = *std::next(suspects_.begin(), place);
    warn(now, *context_.peers.find(suspect), std::max(1.0, drawn_from));
  }
}

void Membership::ping(Instant now, Peer& peer) {
  Ping message;
  message.nonce = next_nonce_++;
  fill(now, peer.record.key.id, message);
  if (is_warm(now, peer)) context_.paces.on_asked(now, peer.record.key.id, message.nonce);
  context_.send(peer.record.key.id, message);
}

void Membership::greet(Instant now, Peer& peer) {
  if (now < peer.refused_until) return;
  const Duration redial = context_.config.redial_interval;
  const bool dead = peer.record.health == Health::kDead;
  const Duration rest = std::min(kRedialMost, Duration((now - peer.health_since) / 4));
  peer.greet_again = now + (dead ? std::max(redial, rest) : redial);
  context_.emit(Greet{peer.record.address, hello(), context_.path_to(peer)});
}

bool Membership::can_greet(const Peer& peer) {
  return peer.record.dialable || context_.relay_to(peer) != PeerId{};
}

void Membership::seek(Instant now, Peer& peer) {
  if (can_greet(peer)) greet(now, peer);
}

// All of a large swarm together greet a seed about as often as a small swarm would. How large it is
// others say: so never less often than kSeedPauseMax, and whoever is alone minds no crowd.
bool Membership::is_due(Instant now, const Seed& seed) const {
  if (context_.peers.process(seed.id) || now < seed.refused_until) return false;
  const Duration redial = context_.config.redial_interval;
  if (now - seed.greeted_at < redial * seed.unevenness) return false;
  const double crowd = std::max(1.0, swarm_size() / kGreetersOfSeed);
  const double pause = std::min(to_seconds(redial) * crowd, to_seconds(kSeedPauseMax));
  return now - seed.greeted_at >= from_seconds(pause * seed.unevenness) ||
         context_.peers.partners() == 0;
}

void Membership::greet_seeds(Instant now) {
  for (Seed& seed : seeds_) {
    if (!is_due(now, seed)) continue;
    // So that peers that lost a seed together do not come back to it together.
    seed.unevenness = 0.75 + 0.5 * context_.rng.unit();
    seed.greeted_at = now;
    context_.emit(Greet{seed.address, hello()});
  }
}

// Those we should know better, as long as we have few lines; and the dead, who may be back.
void Membership::greet_some(Instant now) {
  bool redial = now >= next_redial_;
  const std::size_t rows = context_.peers.rows().size();
  for (std::size_t draws = std::min<std::size_t>(rows, kPeerDraws); draws > 0; --draws) {
    Peer& peer = context_.peers.draw(context_.rng);
    if (peer.welcomed || now < peer.greet_again || now < peer.refused_until) continue;
    if (!can_greet(peer)) continue;
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

// One that cannot say that it can be dialled may be near, or its callers' addresses be rewritten on
// the way: peers of one network would not meet where distant ones keep them from saying so.
void Membership::greet_on_trial(Instant now) {
  if (now < next_trial_ || context_.peers.undialable() == 0) return;
  next_trial_ = now + kTrialEvery;
  const std::size_t rows = context_.peers.rows().size();
  for (std::size_t draws = std::min<std::size_t>(rows, kPeerDraws); draws > 0; --draws) {
    Peer& peer = context_.peers.draw(context_.rng);
    if (peer.welcomed || now < peer.greet_again || now < peer.refused_until) continue;
    if (can_greet(peer) || !listens(peer.record.address)) continue;
    const bool dead = peer.record.health == Health::kDead && now >= next_redial_;
    if (dead) next_redial_ = now + context_.config.redial_interval;
    if (dead || peer.record.health == Health::kAlive) return greet(now, peer);
  }
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
  for (std::size_t draws = std::min<std::size_t>(rows, kPeerDraws); draws > 0; --draws) {
    Peer& peer = context_.peers.draw(context_.rng);
    if (!peer.welcomed || peer.record.health != Health::kAlive) continue;
    peer.answer_until = now + kAnswerIntervals * context_.config.ping_interval;
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

// Views that differ are compared again at once, but ever later while nobody learns from it: where
// allow-lists differ, views stay different.
void Membership::compare_again() {
  ticks_to_sync_ = std::min(ticks_to_sync_, ticks_without_news_);
  ticks_without_news_ = std::min(2 * ticks_without_news_ + 1, kTicksPerSync);
}

void Membership::on_digest(Instant now, PeerId from, const Digest& theirs) {
  static_cast<void>(context_.tokens.sketch().merge(theirs.minima));
  Peer* row = context_.peers.find(from);
  if (budget_.syncs == 0 || row == nullptr) return;
  if (theirs.answer ? now >= row->answer_until : now < row->compare_again) return;
  if (theirs.answer) {
    row->answer_until = {};
  } else {
    row->compare_again = now + 3 * context_.config.ping_interval / 4;
  }
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
  if (!records.empty()) compare_again();
  if (theirs.answer) return;
  context_.send(from, ours);
  if (context_.peers.full()) swap_sample(now, from);
}

// A view by sample has nothing to compare; a random part of it is swapped for a part of the
// other's.
void Membership::swap_sample(Instant now, PeerId with) {
  Records message;
  STARLING_ASSERT(message.records.try_push(self_));
  context_.peers.draw_some(message.records, kRecordsMax, now, with, context_.rng);
  context_.send(with, message);
}

void Membership::on_records(Instant now, PeerId from, const Records& message) {
  const auto known = context_.peers.digest();
  for (const PeerRecord& record : message.records) {
    count_strangers(record);
    learn(now, from, record);
    if (context_.conduct.muted(now, from)) return;  // it was forged
  }
  if (context_.peers.full() || context_.peers.digest() == known) return;
  ticks_without_news_ = 0;
  compare_again();
}

void Membership::watch(Instant now) {
  const auto change = watch_.look(now, context_.peers.present_met_once());
  if (!change) return;
  const auto usual = [this](FragmentId fragment) {
    return context_.fragments[fragment.value].clip_radius;
  };
  if (change->change == SwarmChange::kHealed) {
    context_.gentle.on_healed(now, usual);
  } else {
    context_.gentle.on_split(now, usual);
  }
  context_.emit(*change);
}

}  // namespace starling::gossip
