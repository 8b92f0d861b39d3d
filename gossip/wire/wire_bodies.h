// The bodies of messages on the wire: one function per struct, for both directions, fields in the
// order of messages.h. Loading throws cereal::Exception for a value out of its range. A field that
// a later version brings stands behind `if (archive.version() >= N)`. Included by wire.cpp only.
#pragma once

#include <algorithm>
#include <type_traits>

#include "base/host.h"
#include "gossip/clock_offsets.h"
#include "gossip/wire/wire.h"
#include "gossip/wire/wire_archive.h"

namespace starling::gossip {

template <class Archive>
void serialize(Archive& archive, PublicKey& key) {
  for (std::uint8_t& byte : key.bytes) archive(byte);
  if constexpr (Archive::is_loading::value) {
    if (!names_a_peer(key)) throw cereal::Exception("not a key");
  }
}

template <class Archive>
void serialize(Archive& archive, SecretProof& proof) {
  for (std::uint8_t& byte : proof.bytes) archive(byte);
}

// A whole address, or none of it: a peer that does not listen.
template <class Archive>
void serialize(Archive& archive, PeerAddress& address) {
  archive(address.host, address.control_port, address.bulk_port, address.key);
  if constexpr (Archive::is_loading::value) {
    const bool nowhere = address.host.empty() && !listens(address) && address.bulk_port == 0;
    if (nowhere) return;
    if (!valid_host(host(address))) throw cereal::Exception("not a host name");
    if (address.control_port == 0) throw cereal::Exception("no control port");
    if (address.bulk_port == 0) throw cereal::Exception("no bulk port");
  }
}

template <class Archive>
void serialize(Archive& archive, Versions& versions) {
  archive(versions.min, versions.max);
  if constexpr (Archive::is_loading::value) {
    if (versions.min == 0 || versions.min > versions.max) throw cereal::Exception("no versions");
  }
}

template <class Archive>
void serialize(Archive& archive, PeerKey& key) {
  archive(key.id, key.incarnation);
}

template <class Archive>
void serialize(Archive& archive, RunIdentity& identity) {
  archive(identity.run, identity.model, identity.layout, identity.versions);
}

template <class Archive>
void serialize(Archive& archive, PeerRecord& record) {
  archive(record.key, record.address, Ranged<Health>{record.health, Health::kLeft}, record.dialable,
          record.accuser, record.age_s, record.forwards, record.relays, record.extension);
  for (std::uint8_t& byte : record.signature) archive(byte);
  if constexpr (Archive::is_loading::value) {
    if (record.key.id != id_of(record.address.key)) throw cereal::Exception("another's key");
  }
}

template <class Archive>
void serialize(Archive& archive, PeerAge& age) {
  archive(age.id, age.age_s);
}

template <class Archive>
void serialize(Archive& archive, TokenEntry& entry) {
  archive(entry.owner, entry.key.incarnation, entry.tokens, entry.rate);
  for (std::uint8_t& byte : entry.signature) archive(byte);
  if (archive.version() >= 3) archive(entry.age_s);
  if constexpr (Archive::is_loading::value) entry.key.id = id_of(entry.owner);
}

template <class Archive>
void serialize(Archive& archive, ExchangeKey& key) {
  archive(key.initiator, key.responder, key.counter);
}

template <class Archive>
void serialize(Archive& archive, StripeRef& ref) {
  archive(ref.exchange, ref.fragment, ref.stripe, ref.attempt);
}

template <class Archive>
void serialize(Archive& archive, Hello& message) {
  archive(message.self, message.identity, message.proof);
}

template <class Archive>
void serialize(Archive& archive, Welcome& message) {
  archive(message.self, message.identity, message.proof);
}

template <class Archive>
void serialize(Archive& archive, Refuse& message) {
  archive(Ranged<RefuseReason>{message.reason, RefuseReason::kSecret, RefuseReason::kProtocol},
          message.identity, message.address);
}

template <class Archive>
void serialize(Archive& archive, Ping& message) {
  archive(message.nonce, message.records, message.ages, message.tokens);
}

template <class Archive>
void serialize(Archive& archive, Pong& message) {
  archive(message.nonce, message.records, message.ages, message.tokens);
  if (archive.version() >= 2) archive(message.time_of_day);
  if constexpr (Archive::is_loading::value) {
    if (message.time_of_day > kTimeOfDayMax) throw cereal::Exception("not a time of day");
  }
}

template <class Archive>
void serialize(Archive& archive, Leave& message) {
  archive(message.self);
}

template <class Archive>
void serialize(Archive& archive, Standing& standing) {
  archive(standing.loss, standing.device);
  if constexpr (Archive::is_loading::value) {
    if (standing.loss < 0) throw cereal::Exception("not a loss");
    if (!std::all_of(standing.device.begin(), standing.device.end(), is_printable)) {
      throw cereal::Exception("not a device's name");
    }
  }
}

template <class Archive>
void serialize_lag(Archive& archive, float& lag_s) {
  if (archive.version() < 4) return;
  archive(lag_s);
  if constexpr (Archive::is_loading::value) {
    if (lag_s < 0) throw cereal::Exception("not a lag");
  }
}

template <class Archive>
void serialize(Archive& archive, Offer& message) {
  archive(message.exchange, message.fragment, message.stripes, message.format, message.cold,
          message.weight, message.mixing, message.clip_radius, message.patience_ms,
          message.standing);
  serialize_lag(archive, message.lag_s);
}

template <class Archive>
void serialize(Archive& archive, Accept& message) {
  archive(message.exchange, message.format, message.weight, message.mixing, message.clip_radius,
          message.window, message.standing);
  serialize_lag(archive, message.lag_s);
}

template <class Archive>
void serialize(Archive& archive, Decline& message) {
  archive(message.exchange,
          Ranged<DeclineReason>{message.reason, DeclineReason::kMuted, DeclineReason::kBusy},
          message.retry_after_ms);
}

template <class Archive>
void serialize(Archive& archive, Finish& message) {
  archive(message.exchange);
}

template <class Archive>
void serialize(Archive& archive, PartPasses& entry) {
  archive(entry.part, entry.passes);
}

template <class Archive>
void serialize(Archive& archive, PartClaim& claim) {
  archive(claim.holder, claim.sequence, claim.parts);
}

template <class Archive>
void serialize(Archive& archive, Parts& message) {
  archive(message.space, message.passes, message.claims);
}

template <class Archive>
void serialize(Archive& archive, StateDigest& digest) {
  for (std::uint8_t& byte : digest.bytes) archive(byte);
}

template <class Archive>
void serialize(Archive&, StateRequest&) {}

template <class Archive>
void serialize(Archive& archive, StateOffer& message) {
  archive(message.snapshot, message.step, message.tokens, message.manifest);
  for (float& value : message.sketch.values) archive(value);
}

template <class Archive>
void serialize(Archive& archive, StateDeclined& message) {
  archive(Ranged<StateReason>{message.reason, StateReason::kWrong, StateReason::kBusy},
          message.retry_after_ms);
}

template <class Archive>
void serialize(Archive& archive, PieceRequest& message) {
  archive(message.snapshot, message.piece, message.received);
}

template <class Archive>
void serialize(Archive& archive, Piece& message) {
  archive(message.snapshot, message.piece);
}

template <class Archive>
void serialize(Archive&, BulkHello&) {}

inline Ranged<RejectReason> ranged(RejectReason& reason) {
  return {reason, static_cast<RejectReason>(kRejectReasons - 1), RejectReason::kNone};
}

template <class Archive>
void serialize(Archive& archive, Abandoned& message) {
  archive(message.ref, ranged(message.reason));
}

template <class Archive>
void serialize(Archive& archive, Abort& message) {
  archive(message.ref, ranged(message.reason));
}

template <class Archive>
void serialize(Archive& archive, PingRequest& message) {
  archive(message.nonce, message.target);
}

template <class Archive>
void serialize(Archive& archive, PingAnswer& message) {
  archive(message.nonce, message.target, message.reached);
}

template <class Archive>
void serialize(Archive& archive, Digest& message) {
  archive(message.answer, message.buckets, message.minima);
}

template <class Archive>
void serialize(Archive& archive, Records& message) {
  archive(message.records);
}

template <class Archive>
void serialize(Archive& archive, RelayAsk& message) {
  archive(message.wanted);
}

template <class Archive>
void serialize(Archive& archive, RelayGrant& message) {
  archive(message.lease_ms);
}

template <class Archive>
void serialize(Archive& archive, RelayDecline& message) {
  archive(message.retry_after_ms);
}

// Commit, Committed, Query, Resend, Push and Delta name a stripe and no more.
template <class T>
concept NamesStripe = std::is_same_v<decltype(T::ref), StripeRef> && sizeof(T) == sizeof(StripeRef);

template <class Archive, NamesStripe T>
void serialize(Archive& archive, T& message) {
  archive(message.ref);
}

}  // namespace starling::gossip
