// Whom Membership finds silent, doubts and gives up. The rules: probes.h and local_health.h.
#include <algorithm>
#include <cmath>
#include <vector>

#include "gossip/membership.h"

namespace starling::gossip {
namespace {

constexpr int kHelperDraws = 24;
constexpr std::size_t kTargetDraws = 32;
constexpr std::uint32_t kTicksPerTurn = 4;
// Peers can be invented by the hundred: at least this share of the probes is for those that were
// met, found in so many draws.
constexpr double kMetShare = 0.25;
constexpr std::size_t kMetDraws = 256;
// A probe that must dial first, and be dialled, takes that much longer.
constexpr int kDialFactor = 3;
constexpr Duration kAnswerLeast = std::chrono::milliseconds(50);
// Of a fresh suspect, every interval, by all together. As long as it stands, each warns twice as
// often after so many intervals more: who still has an old one has missed a denial that most have.
constexpr double kWarners = 32;
constexpr double kIntervalsPerDoubling = 4;
constexpr Duration kRelayedUnheardMax = kOwnLineKept / 3;
// What others say of a life is believed for so long, up to twice that, each for another time: then
// its own word is wanted, which one doubt brings about for all.
constexpr Duration kHearsayMax = std::chrono::minutes(30);

}  // namespace

SuspicionTimes Membership::suspicion() const {
  return suspicion_times(context_.config.dead_after, swarm_size());
}

// Each peer in its turn, in an order drawn for each round (SWIM, section 4.3): whoever dies is
// probed by everybody within two rounds, and by somebody within a few intervals.
void Membership::probe_next(Instant now) {
  const bool many = context_.peers.rows().size() > context_.config.connections_max;
  if (many && ++ticks_to_turn_ % kTicksPerTurn != 0 && probe_neighbour(now)) return;
  const std::size_t rows = context_.peers.rows().size();
  const bool met = context_.rng.chance(kMetShare);
  const std::size_t draws = met ? kMetDraws : kTargetDraws;
  for (std::size_t tries = std::min<std::size_t>(rows, draws); tries > 0; --tries) {
    Peer& peer = context_.peers.next_in_round(context_.rng);
    if (met && !peer.met) continue;
    let_go_if_dead(now, peer);
    const bool wanted = is_present(peer.record.health) || peer.welcomed;
    if (!wanted || now < peer.refused_until || probes_.open(peer.record.key.id)) continue;
    if (!peer.welcomed && !peer.record.dialable) {  // nothing to be asked: it will call
      if (may_be_doubted(now, peer, now)) doubt(now, peer, context_.self.id);
      continue;
    }
    // Through a relay, only as often as the way must be known to be good.
    if (is_out_of_reach(peer, now) && now - peer.last_heard < kRelayedUnheardMax) continue;
    probe(now, peer);
    return;
  }
}

// Where there are more peers than lines, most probes go over lines that stand: the others have
// lines to the rest, and dialling costs both ends more than the probe does.
bool Membership::probe_neighbour(Instant now) {
  for (std::size_t tries = std::min(context_.lines.size(), kTargetDraws); tries > 0; --tries) {
    const auto drawn = context_.rng.below(context_.lines.size());
    Peer& peer = *context_.peers.find(context_.lines[static_cast<std::size_t>(drawn)]);
    const bool wanted = peer.welcomed && is_present(peer.record.health);
    if (!wanted || now < peer.refused_until || probes_.open(peer.record.key.id)) continue;
    probe(now, peer);
    return true;
  }
  return false;
}

// Lines are open both ways: an answer takes a round trip and no dialling.
bool Membership::is_warm(Instant now, const Peer& peer) const {
  return peer.connected && now - peer.last_heard < CoreContext::kColdAfter && peer.welcomed;
}

// Silence of one that cannot be dialled means something to those whom its line surely led to when
// they asked; a relay's silence is not the peer's. Others go by the last sign of life that anybody
// had of it.
bool Membership::may_be_doubted(Instant now, const Peer& peer, Instant asked_at) const {
  if (peer.record.dialable) return true;
  if (peer.welcomed && asked_at - peer.heard_directly < kOwnLineSure) return true;
  if (now - peer.alive_at >= ages_come_around()) return true;
  constexpr std::uint64_t kShares = 1024;
  const auto share = mix64(context_.self.id.value ^ peer.record.key.id.value) % kShares;
  return now - peer.proved_at >= kHearsayMax + kHearsayMax * share / kShares;
}

// Ages come around in minutes where all know all, and are later in samples. In a large swarm it is
// two thirds of an interval for each that they are told of: whoever knows one of n tells it in an
// interval with a chance of 32 / n, to one of two others, so that what some know of whom they never
// meet is older once in a hundred million.
Duration Membership::ages_come_around() const {
  const Duration usual = PeerTable::kStale / (context_.peers.full() ? 1 : 3);
  const auto told = static_cast<Duration::rep>(context_.peers.undialable());
  return std::max<Duration>(usual, 2 * told * context_.config.ping_interval / 3);
}

void Membership::probe(Instant now, Peer& peer) {
  const bool warm = is_warm(now, peer);
  const Duration whole = health_.stretch(context_.config.suspect_after * (warm ? 1 : kDialFactor));
  Duration alone = whole / 3;
  if (const auto usual = context_.paces.of(now, peer.record.key.id).answer_within();
      warm && usual) {
    alone = std::min(alone, health_.stretch(*usual + kAnswerLeast));
  }
  const Probe begun{.target = peer.record.key.id,
                    .nonce = next_nonce_,
                    .sent_at = now,
                    .ask_others_at = now + alone,
                    .ends_at = now + whole};
  if (!probes_.begin(begun)) return;
  if (peer.welcomed) {
    ping(now, peer);
  } else {
    seek(now, peer);
  }
}

void Membership::ask_others(Instant now) {
  for (const Probe& probe : probes_.due_for_help(now)) {
    Peer* target = context_.peers.find(probe.target);
    if (target == nullptr) continue;
    // Once more ourselves: a message may be lost, and we may be forgotten there.
    seek(now, *target);
    if (target->welcomed) ping(now, *target);
    BoundedList<PeerId, kHelpersMax> helpers;
    for (int draws = 0; draws < kHelperDraws && !helpers.full(); ++draws) {
      const Peer& peer = context_.peers.draw(context_.rng);
      const PeerId id = peer.record.key.id;
      // Those we have a line to answer sooner; others only if there are none.
      const bool near = peer.connected || draws >= kHelperDraws / 2;
      const bool suits = peer.welcomed && peer.record.health == Health::kAlive && near;
      if (!suits || id == probe.target || context_.conduct.muted(now, id)) continue;
      const bool drawn = std::find(helpers.begin(), helpers.end(), id) != helpers.end();
      if (!drawn) STARLING_ASSERT(helpers.try_push(id));
    }
    probes_.note_asked(probe.target, helpers);
    for (const PeerId helper : helpers) {
      context_.send(helper, PingRequest{probe.nonce, PeerTable::told(*target, now)});
    }
  }
}

// It came back from the dead, was told so, and fell silent again before it denied it.
void Membership::let_go(Peer& peer) {
  if (!peer.welcomed) return;
  peer.welcomed = false;
  context_.hang_up(peer);
}

// Its turn to be probed may be minutes away, and we not well enough to wait for its answer only as
// long as is usual. If it lives, our next greeting or its own next word finds that out.
void Membership::let_go_if_dead(Instant now, Peer& peer) {
  const Duration patience = kDialFactor * context_.config.suspect_after;
  if (is_gone(peer.record.health) && now - peer.last_heard > patience) let_go(peer);
}

// Nobody heard anything of these.
void Membership::judge_silent(Instant now) {
  for (const Probe& probe : probes_.due_for_end(now)) {
    Peer* peer = context_.peers.find(probe.target);
    if (peer != nullptr && peer->relay != PeerId{}) {
      context_.take_other_relay(*peer);
    } else {
      health_.bad(probe.asked > 0 ? probe.asked - probe.heard : 1);
    }
    if (peer == nullptr || now < peer->refused_until) continue;
    peer->silent_at = now;
    if (is_present(peer->record.health)) {
      if (may_be_doubted(now, *peer, probe.sent_at)) doubt(now, *peer, context_.self.id);
    } else {
      let_go(*peer);
    }
  }
}

void Membership::on_ping_request(Instant now, PeerId from, const PingRequest& request) {
  const PeerId target = request.target.key.id;
  if (target == context_.self.id) return;
  learn(now, from, request.target);
  Peer* peer = context_.peers.find(target);
  if (peer != nullptr) let_go_if_dead(now, *peer);
  const ProbeDuty duty{from, request.nonce, target};
  // Of whom there is no row there is no word but the sender's, signed by nobody: it could make us
  // dial whatever it likes.
  const bool can_ask =
      peer != nullptr && now >= peer->refused_until && (peer->welcomed || request.target.dialable);
  // Lifeguard: the negative answer must be there before the asker's time is up.
  const bool near = peer != nullptr && peer->connected;
  const Duration patience = context_.config.suspect_after / 3 * (near ? 1 : 2);
  if (!can_ask || !probes_.owe(duty, now + patience)) {
    context_.send(from, PingAnswer{request.nonce, target, false});
    return;
  }
  if (peer->welcomed) {
    ping(now, *peer);
  } else if (now >= peer->greet_again) {
    seek(now, *peer);
  }
}

void Membership::on_ping_answer(Instant now, PeerId from, const PingAnswer& answer) {
  Peer* peer = context_.peers.find(answer.target);
  if (!probes_.note_helper(answer.target, answer.nonce, from) || peer == nullptr) return;
  if (!answer.reached) return;
  // It lives, though we do not hear it.
  static_cast<void>(probes_.answered(answer.target));
  peer->alive_at = now;
}

void Membership::answer_askers(Instant now) {
  for (const ProbeDuty& duty : probes_.duties_due(now)) {
    context_.send(duty.asker, PingAnswer{duty.nonce, duty.target, false});
  }
}

// `accuser` found it silent. Further accusers of the same suspicion shorten its time.
void Membership::doubt(Instant now, Peer& peer, PeerId accuser) {
  if (peer.record.health == Health::kAlive) set_health(now, peer, Health::kSuspect, accuser);
  if (peer.record.health != Health::kSuspect) return;
  const bool known =
      std::find(peer.accusers.begin(), peer.accusers.end(), accuser) != peer.accusers.end();
  if (known || accuser == PeerId{} || !peer.accusers.try_push(accuser)) return;
  peer.record.accuser = accuser;
  context_.peers.tell(peer);
  arm_suspicion(now, peer);
}

void Membership::arm_suspicion(Instant now, Peer& peer) {
  const double others = swarm_size() - 2;  // who could confirm it
  const std::size_t expected = others < kConfirmationsMax ? 0 : kConfirmationsMax;
  const std::size_t accusers = std::max<std::size_t>(peer.accusers.size(), 1);
  const Duration timeout = suspicion_timeout(suspicion(), accusers - 1, expected);
  // Another accuser may shorten it to what is over already. A deadline in the past would look as if
  // this process had not run since.
  suspicion_timers_.set(peer.record.key.id, std::max(now, peer.health_since + timeout));
}

// Lifeguard's buddy system: a suspect hears of it first from whoever doubts it. A rumor comes to
// all of a large swarm within seconds, and together they would keep it from answering anybody.
// `drawn_from`: the suspects for each that is warned at the time.
void Membership::warn(Instant now, Peer& peer, double drawn_from) {
  const double intervals =
      to_seconds(now - peer.health_since) / to_seconds(context_.config.ping_interval);
  const double share = kWarners / swarm_size() * std::exp2(intervals / kIntervalsPerDoubling);
  if (share * drawn_from < 1 && !context_.rng.chance(share * drawn_from)) return;
  if (budget_.warnings == 0 || now < peer.refused_until) return;
  --budget_.warnings;
  if (peer.welcomed) {
    ping(now, peer);
  } else if (now >= peer.greet_again) {
    seek(now, peer);
  }
}

void Membership::bury(Instant now) {
  const Duration least = suspicion().least;
  while (const auto id = suspicion_timers_.pop_due(now)) {
    Peer* peer = context_.peers.find(*id);
    if (peer == nullptr || peer->record.health != Health::kSuspect) continue;
    if (now - peer->last_heard < least) {  // we hear it: it has not denied it yet, that is all
      suspicion_timers_.set(*id, peer->last_heard + least);
      continue;
    }
    // In a sample a denial may miss some, and nobody is buried on hearsay alone.
    const bool hearsay = peer->silent_at < peer->health_since;
    if (context_.peers.full() && hearsay && (peer->welcomed || can_greet(*peer))) {
      if (!probes_.open(*id)) probe(now, *peer);
      suspicion_timers_.set(*id, now + context_.config.suspect_after);
      continue;
    }
    set_health(now, *peer, Health::kDead, context_.self.id);
  }
}

}  // namespace starling::gossip
