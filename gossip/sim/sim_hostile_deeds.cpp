// What a SimHostile says of its own accord.
#include <array>
#include <limits>
#include <map>

#include "gossip/sim/sim_audit.h"
#include "gossip/sim/sim_hostile.h"

namespace starling::gossip {
namespace {

constexpr int kFloodMessages = 40;
constexpr int kRecordLists = 4;  // of kRecordsMax each

}  // namespace

std::uint32_t SimHostile::anybody() {
  const auto other = static_cast<std::uint32_t>(rng_.below(peers_ - 1));
  return other < self_ ? other : other + 1;
}

std::vector<SimSaid> SimHostile::deeds() {
  std::vector<SimSaid> said;
  spread_lies(said);
  interfere(said);
  if (does(Misdeed::kBuriesTheLiving)) accuse(said);
  if (does(Misdeed::kFloods)) flood(said);
  if (does(Misdeed::kVouchesForDead)) vouch(said);
  if (does(Misdeed::kRepeats) && !past_.empty()) {
    said.push_back(past_[static_cast<std::size_t>(rng_.below(past_.size()))]);
  }
  lies_ += said.size();
  return said;
}

void SimHostile::spread_lies(std::vector<SimSaid>& said) {
  for (int list = 0; list < kRecordLists; ++list) {
    Records message;
    for (std::size_t tries = kRecordsMax; tries > 0; --tries) {
      const auto record = lie();
      if (record && !message.records.try_push(*record)) break;
    }
    if (!message.records.empty()) said.push_back({anybody(), message, {}});
  }
  if (does(Misdeed::kLiesAboutParts)) said.push_back({anybody(), parts_lie(), {}});
  if (!does(Misdeed::kMisleads) || known_.empty()) return;
  const PeerRecord& somebody = known_[static_cast<std::size_t>(rng_.below(known_.size()))];
  PeerRecord gone = somebody;
  gone.health = Health::kLeft;
  said.push_back({anybody(), Leave{gone}, {}});
  said.push_back({anybody(), PingAnswer{rng_.below(100), somebody.key.id, rng_.chance(0.5)}, {}});
  said.push_back({anybody(), PingRequest{rng_.next(), invent()}, {}});
  const auto reason = static_cast<RefuseReason>(rng_.below(7));
  if (rng_.chance(0.1)) said.push_back({anybody(), Refuse{reason, {}, somebody.address}, {}});
}

// Everybody, to itself, in the life and with the denial that was heard last: it has to deny again.
void SimHostile::accuse(std::vector<SimSaid>& said) const {
  std::map<PeerId, PeerRecord> newest;
  for (const PeerRecord& record : known_) {
    PeerRecord& known = newest.try_emplace(record.key.id, record).first->second;
    if (known.key.incarnation < record.key.incarnation) known = record;
  }
  for (auto& [id, record] : newest) {
    if (id.value > peers_) continue;  // it was invented
    record.health = Health::kSuspect;
    record.accuser = sim_peer_id(self_);
    Records message;
    if (message.records.try_push(record)) {
      said.push_back({static_cast<std::uint32_t>(id.value - 1), message, {}});
    }
  }
}

// For everybody it knows, to somebody: the dead are among them. Nonces of probes count up from 1.
void SimHostile::vouch(std::vector<SimSaid>& said) {
  const std::uint32_t to = anybody();
  Ping ping;
  ping.nonce = rng_.next();
  for (PeerRecord record : known_) {
    record.health = Health::kAlive;
    record.accuser = {};
    record.age_s = 0;
    const bool told = ping.ages.try_push({record.key.id, 0}) && ping.records.try_push(record);
    for (int guess = 0; guess < 2; ++guess) {
      said.push_back({to, PingAnswer{1 + rng_.below(2000), record.key.id, true}, {}});
    }
    if (!told) break;
  }
  said.push_back({to, ping, {}});
}

// Says that parts are read which are not, and that others read what they do not.
Parts SimHostile::parts_lie() {
  Parts parts;
  parts.space = kSimPartSpace.digest;
  for (int entry = 0; entry < 64; ++entry) {
    const auto part = static_cast<std::uint16_t>(rng_.below(2 * kSimPartSpace.parts));
    if (!parts.passes.try_push({part, static_cast<std::uint16_t>(rng_.next())})) break;
  }
  for (const PeerRecord& record : known_) {
    PartClaim claim{process_of(record), rng_.next(), {}};
    const bool named = claim.parts.try_push(static_cast<std::uint16_t>(rng_.below(200)));
    if (!named || !parts.claims.try_push(claim)) break;
  }
  return parts;
}

// Into exchanges of its own that run, have ended, or never began.
void SimHostile::interfere(std::vector<SimSaid>& said) {
  if (does(Misdeed::kLiesAboutStates)) {
    const std::uint32_t to = anybody();
    StateOffer offer{rng_.next(), rng_.next(), rng_.next(), {}, {}};
    offer.sketch.values.fill(std::numeric_limits<float>::quiet_NaN());
    said.push_back({to, offer, {}});
    said.push_back({to, Piece{offer.snapshot, 3}, SimPayload{}});
    said.push_back({to, StateDeclined{static_cast<StateReason>(rng_.below(8)), 0}, {}});
    said.push_back({to, PieceRequest{rng_.next(), static_cast<std::uint32_t>(rng_.next()), 0}, {}});
    said.push_back({to, StateRequest{}, {}});
  }
  if (refs_.empty()) return;
  const auto& [partner, known] = refs_[static_cast<std::size_t>(rng_.below(refs_.size()))];
  const StripeRef ref = does(Misdeed::kMixesNames) ? rename(known) : known;
  if (does(Misdeed::kSettlesAnything)) {
    StripeRef other = ref;
    other.attempt = static_cast<std::uint8_t>(other.attempt + rng_.below(2));
    other.stripe = static_cast<std::uint32_t>(rng_.below(stripes_.front()));
    said.push_back({partner, settling(rng_.below(7), other), {}});
  }
  if (does(Misdeed::kMixesNames)) {
    said.push_back({partner, Delta{ref}, SimPayload{ref, {}}});
    said.push_back({anybody(), Push{ref}, SimPayload{ref, {}}});
    said.push_back({anybody(), settling(rng_.below(7), ref), {}});
  }
}

Message SimHostile::settling(std::uint64_t kind, const StripeRef& ref) {
  switch (kind) {
    case 0: return Commit{ref};
    case 1: return Committed{ref};
    case 2: return Abandoned{ref, RejectReason::kMalformed};
    case 3: return Abort{ref, RejectReason::kNone};
    case 4: return Query{ref};
    case 5: return Finish{ref.exchange};
    default: return Resend{ref};
  }
}

void SimHostile::flood(std::vector<SimSaid>& said) {
  const std::uint32_t to = anybody();
  const std::uint64_t kind = rng_.below(9);
  for (int message = 0; message < kFloodMessages; ++message) {
    said.push_back({to, flood_message(kind), {}});
  }
}

Message SimHostile::flood_message(std::uint64_t kind) {
  StripeRef ref{};
  if (!refs_.empty()) ref = refs_[static_cast<std::size_t>(rng_.below(refs_.size()))].second;
  switch (kind) {
    case 0: return Query{ref};
    case 1: return Resend{ref};
    case 2: return Commit{ref};
    case 3: {
      Offer offer;
      offer.exchange = ref.exchange;
      offer.exchange.counter = rng_.next();
      offer.stripes = stripes_.front();
      return offer;
    }
    case 4: return StateRequest{};
    case 5: return PingRequest{rng_.next(), invent()};
    case 6: {
      Digest digest;
      for (std::size_t bucket = 0; bucket < kBucketsMax; ++bucket) {
        if (!digest.buckets.try_push(rng_.next())) break;
      }
      return digest;
    }
    case 7: return Ping{rng_.next(), {}, {}, {}};
    default: {
      Records message;
      while (message.records.try_push(invent())) continue;
      return message;
    }
  }
}

}  // namespace starling::gossip
