// Messages with random contents, for tests of the wire. The type is chosen by the caller, so that
// every type is covered. Values are valid: what is drawn here must survive encoding and decoding.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <variant>

#include "base/assert.h"
#include "base/rng.h"
#include "gossip/clock_offsets.h"
#include "gossip/messages.h"

namespace starling::gossip {

class RandomMessages {
 public:
  explicit RandomMessages(std::uint64_t seed) : rng_(seed) {}

  PeerId peer() { return PeerId{rng_.next() | 1U}; }
  Message of_type(std::size_t index) {
    return of_type(index, std::make_index_sequence<std::variant_size_v<Message>>());
  }

 private:
  template <std::size_t... kIndices>
  Message of_type(std::size_t index, std::index_sequence<kIndices...>) {
    Message message;
    const auto draw_if = [&]<std::size_t kIndex>(std::integral_constant<std::size_t, kIndex>) {
      if (kIndex != index) return;
      std::variant_alternative_t<kIndex, Message> body{};
      fill(body);
      message.emplace<kIndex>(body);
    };
    (draw_if(std::integral_constant<std::size_t, kIndices>{}), ...);
    return message;
  }

  template <class T>
  T integer() {
    return static_cast<T>(rng_.next());
  }
  float number() { return rng_.normal() * 1000.0F; }
  PeerKey key() { return {peer(), rng_.next()}; }
  PeerAddress address() {
    constexpr std::string_view kLetters = "abcXYZ019.-_";
    constexpr std::size_t kFirst = 9;  // may stand in front
    std::string host;
    const auto size = 1 + rng_.below(kHostBytesMax);
    for (std::uint64_t i = 0; i < size; ++i)
      host += kLetters[rng_.below(i == 0 ? kFirst : kLetters.size())];
    PeerAddress address;
    STARLING_ASSERT(set_host(address, host));
    address.control_port = static_cast<std::uint16_t>(1 + rng_.below(65535));
    address.bulk_port = static_cast<std::uint16_t>(1 + rng_.below(65535));
    if (rng_.chance(0.2)) address = {};  // does not listen
    address.key = stand_in_key(peer());
    for (std::size_t i = 8; i < 31; ++i) address.key.bytes[i] = integer<std::uint8_t>();
    return address;
  }
  RunIdentity identity() {
    const auto min = static_cast<std::uint8_t>(1 + rng_.below(255));
    const auto max = static_cast<std::uint8_t>(min + rng_.below(256U - min));
    return {rng_.next(), rng_.next(), rng_.next(), {min, max}};
  }
  PeerRecord record() {
    PeerRecord record{{},
                      address(),
                      static_cast<Health>(rng_.below(4)),
                      rng_.chance(0.5),
                      peer(),
                      integer<std::uint16_t>(),
                      rng_.chance(0.5),
                      {},
                      {},
                      {}};
    for (auto relays = rng_.below(kRelaysMax + 1); relays > 0; --relays) {
      STARLING_ASSERT(record.relays.try_push(peer()));
    }
    for (auto bytes = rng_.below(kExtensionBytesMax + 1); bytes > 0; --bytes) {
      STARLING_ASSERT(record.extension.try_push(integer<std::uint8_t>()));
    }
    for (std::uint8_t& byte : record.signature) byte = integer<std::uint8_t>();
    record.key = {id_of(record.address.key), rng_.next()};
    return record;
  }
  SecretProof proof() {
    SecretProof proof;
    for (std::uint8_t& byte : proof.bytes) byte = integer<std::uint8_t>();
    return proof;
  }
  TokenEntry tokens() {
    TokenEntry entry{key(), rng_.next(), number()};
    entry.owner = stand_in_key(entry.key.id);
    for (std::uint8_t& byte : entry.signature) byte = integer<std::uint8_t>();
    entry.age_s = integer<std::uint16_t>();
    return entry;
  }
  PartClaim claim() {
    PartClaim claim{key(), rng_.next(), {}};
    const auto held = rng_.below(kPartsHeldMax + 1);
    for (std::uint64_t i = 0; i < held; ++i) {
      STARLING_ASSERT(claim.parts.try_push(integer<std::uint16_t>()));
    }
    return claim;
  }
  ExchangeKey exchange() { return {key(), key(), rng_.next()}; }
  StripeRef ref() {
    return {exchange(), FragmentId{integer<std::uint16_t>()}, integer<std::uint32_t>(),
            integer<std::uint8_t>()};
  }

  void fill(Hello& m) { m = {record(), identity(), proof()}; }
  void fill(Welcome& m) { m = {record(), identity(), proof()}; }
  void fill(Refuse& m) { m = {static_cast<RefuseReason>(rng_.below(7)), identity(), address()}; }
  void fill(Ping& m) { fill_ping(m); }
  void fill(Pong& m) {
    fill_ping(m);
    m.time_of_day = rng_.below(kTimeOfDayMax + 1);
  }
  template <class T>
  void fill_ping(T& m) {
    m.nonce = rng_.next();
    const auto records = rng_.below(kRecordsMax + 1);
    for (std::uint64_t i = 0; i < records; ++i) STARLING_ASSERT(m.records.try_push(record()));
    const auto ages = rng_.below(kAgesMax + 1);
    for (std::uint64_t i = 0; i < ages; ++i) {
      STARLING_ASSERT(m.ages.try_push({peer(), integer<std::uint16_t>()}));
    }
    const auto entries = rng_.below(kTokensMax + 1);
    for (std::uint64_t i = 0; i < entries; ++i) STARLING_ASSERT(m.tokens.try_push(tokens()));
  }
  void fill(Leave& m) { m = {record()}; }
  void fill(Offer& m) {
    m = {exchange(),
         FragmentId{integer<std::uint16_t>()},
         integer<std::uint32_t>(),
         integer<std::uint8_t>(),
         rng_.chance(0.5),
         number(),
         number(),
         number(),
         integer<std::uint32_t>(),
         standing(),
         std::abs(number())};
  }
  void fill(Accept& m) {
    m = {exchange(), integer<std::uint8_t>(),  number(),   number(),
         number(),   integer<std::uint16_t>(), standing(), std::abs(number())};
  }
  Standing standing() {
    return make_standing(std::abs(number()), std::string(rng_.below(kDeviceBytesMax + 1), 'd'));
  }
  void fill(Decline& m) {
    m = {exchange(), static_cast<DeclineReason>(rng_.below(7)), integer<std::uint32_t>()};
  }
  void fill(Finish& m) { m = {exchange()}; }
  void fill(Parts& m) {
    m.space = rng_.next();
    const auto entries = rng_.below(kPartPassesMax + 1);
    for (std::uint64_t i = 0; i < entries; ++i) {
      const PartPasses passes{integer<std::uint16_t>(), integer<std::uint16_t>()};
      STARLING_ASSERT(m.passes.try_push(passes));
    }
    const auto claims = rng_.below(kPartClaimsMax + 1);
    for (std::uint64_t i = 0; i < claims; ++i) STARLING_ASSERT(m.claims.try_push(claim()));
  }
  void fill(StateRequest&) {}
  void fill(StateOffer& m) {
    m.snapshot = rng_.next();
    m.step = rng_.next();
    m.tokens = rng_.next();
    const auto parts = rng_.below(kManifestPartsMax + 1);
    for (std::uint64_t i = 0; i < parts; ++i) {
      StateDigest digest;
      for (std::uint8_t& byte : digest.bytes) byte = integer<std::uint8_t>();
      STARLING_ASSERT(m.manifest.try_push(digest));
    }
    for (float& value : m.sketch.values) value = number();
  }
  void fill(StateDeclined& m) {
    m = {static_cast<StateReason>(rng_.below(9)), integer<std::uint32_t>()};
  }
  void fill(PieceRequest& m) {
    m = {rng_.next(), integer<std::uint32_t>(), integer<std::uint32_t>()};
  }
  void fill(Piece& m) { m = {rng_.next(), integer<std::uint32_t>()}; }
  void fill(BulkHello&) {}
  void fill(Abandoned& m) { m = {ref(), reason()}; }
  void fill(Abort& m) { m = {ref(), reason()}; }
  RejectReason reason() { return static_cast<RejectReason>(rng_.below(kRejectReasons)); }
  void fill(PingRequest& m) { m = {rng_.next(), record()}; }
  void fill(PingAnswer& m) { m = {rng_.next(), peer(), rng_.chance(0.5)}; }
  void fill(Digest& m) {
    m.answer = rng_.chance(0.5);
    const auto buckets = rng_.below(kBucketsMax + 1);
    for (std::uint64_t i = 0; i < buckets; ++i) STARLING_ASSERT(m.buckets.try_push(rng_.next()));
    const auto minima = rng_.below(kMinimaMax + 1);
    for (std::uint64_t i = 0; i < minima; ++i) STARLING_ASSERT(m.minima.try_push(number()));
  }
  void fill(Records& m) {
    const auto records = rng_.below(kRecordsMax + 1);
    for (std::uint64_t i = 0; i < records; ++i) STARLING_ASSERT(m.records.try_push(record()));
  }
  void fill(RelayAsk& m) { m = {rng_.chance(0.5)}; }
  void fill(RelayGrant& m) { m = {integer<std::uint32_t>()}; }
  void fill(RelayDecline& m) { m = {integer<std::uint32_t>()}; }
  template <class T>
  void fill(T& m) {
    m.ref = ref();
  }

  Rng rng_;
};

}  // namespace starling::gossip
