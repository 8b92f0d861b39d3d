#include "gossip/wire/wire.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/rng.h"
#include "gossip/clock_offsets.h"
#include "gossip/wire/wire_archive.h"
#include "tests/gossip/random_messages.h"
#include "tests/gossip/wire/canonical_frame.h"
#include "tests/gossip/wire/edited_frame.h"

namespace starling::gossip {
namespace {

constexpr std::size_t kTypes = std::variant_size_v<Message>;

Buffer random_bytes(Rng& rng, std::size_t size) {
  Buffer bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
  return bytes;
}

// A whole frame of either lane; `payload` is used for bulk.
Buffer frame_of(PeerId from, const Message& message, std::span<const std::byte> payload,
                std::uint8_t version = kVersions.max) {
  if (!is_bulk(message)) return encode(from, message, version);
  Buffer frame(kBulkHeadBytes + payload.size(), std::byte{0xA5});  // as dirty as a used slot
  std::copy(payload.begin(), payload.end(), frame.begin() + kBulkHeadBytes);
  encode_bulk_head(from, message, frame, version);
  return frame;
}

bool same(std::span<const std::byte> left, std::span<const std::byte> right) {
  return left.size() == right.size() && std::equal(left.begin(), left.end(), right.begin());
}

}  // namespace

TEST_CASE("every message comes out of its frame as it went in") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    RandomMessages draw(seed);
    Rng rng(seed);
    for (std::size_t type = 0; type < kTypes; ++type) {
      CAPTURE(type);
      const PeerId from = draw.peer();
      const Message message = draw.of_type(type);
      REQUIRE(message.index() == type);
      const Buffer payload = random_bytes(rng, 1 + rng.below(300));
      const Buffer frame = frame_of(from, message, payload);
      auto decoded = decode(frame);
      REQUIRE(decoded.ok());
      CHECK(decoded.value().from == from);
      CHECK(decoded.value().message.index() == type);
      CHECK(same(frame, encoded_again(decoded.value())));
      if (is_bulk(message)) CHECK(same(decoded.value().payload, payload));
      if (!is_bulk(message)) CHECK(decoded.value().payload.empty());
    }
  }
}

TEST_CASE("the fields of an offer and of a full ping survive") {
  Ping ping{.nonce = 7, .records = {}, .ages = {}, .tokens = {}};
  PeerRecord record{.key = {PeerId{3}, 9}, .address = {}, .health = Health::kSuspect};
  record.address.key = stand_in_key(PeerId{3});
  REQUIRE(set_host(record.address, std::string(kHostBytesMax, 'h')));
  record.address.control_port = record.address.bulk_port = 65535;
  while (!record.extension.full()) REQUIRE(record.extension.try_push(7));
  while (!ping.records.full()) REQUIRE(ping.records.try_push(record));
  const TokenEntry count{{PeerId{3}, 1}, 5, 0.5F, record.address.key, {1, 2, 3}, 4};
  while (!ping.tokens.full()) REQUIRE(ping.tokens.try_push(count));
  const Buffer frame = encode(PeerId{1}, ping);
  CHECK(frame.size() <= kControlFrameBytesMax);
  auto decoded = decode(frame);
  REQUIRE(decoded.ok());
  const auto& got = std::get<Ping>(decoded.value().message);
  CHECK(got.nonce == 7);
  CHECK((got.records == ping.records && got.tokens == ping.tokens));

  const Offer offer{.exchange = {{PeerId{1}, 2}, {PeerId{3}, 4}, 5},
                    .fragment = FragmentId{6},
                    .stripes = 7,
                    .format = 8,
                    .cold = true,
                    .weight = 0.5F,
                    .mixing = 0.25F,
                    .clip_radius = 1.5F,
                    .patience_ms = 9,
                    .standing = make_standing(2.5F, std::string(kDeviceBytesMax, 'd'))};
  auto offered = decode(encode(PeerId{1}, offer));
  REQUIRE(offered.ok());
  const auto& again = std::get<Offer>(offered.value().message);
  CHECK(again.exchange == offer.exchange);
  CHECK(again.stripes == 7);
  CHECK(again.cold);
  CHECK(again.weight == 0.5F);
  CHECK(again.mixing == 0.25F);
  CHECK(again.clip_radius == 1.5F);
  CHECK(again.standing == offer.standing);
}

TEST_CASE("the bytes of a frame do not depend on the machine") {
  const StripeRef ref{.exchange = {{PeerId{1}, 2}, {PeerId{3}, 4}, 5},
                      .fragment = FragmentId{0x0706},
                      .stripe = 0x0B0A0908,
                      .attempt = 12};
  const Buffer frame = encode(PeerId{0x1122334455667788}, Commit{ref});
  REQUIRE(frame.size() == kHeaderBytes + 47);
  const std::array<int, 24> header{'S',  'T',  'R',  'L',  4,    10,   0,    0,
                                   47,   0,    0,    0,    0,    0,    0,    0,
                                   0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
  for (std::size_t i = 0; i < header.size(); ++i) CHECK(static_cast<int>(frame[i]) == header[i]);
  for (std::size_t i = 0; i < 5; ++i) {  // the five words of the exchange, low byte first
    CHECK(static_cast<std::size_t>(frame[kHeaderBytes + 8 * i]) == i + 1);
    CHECK(frame[kHeaderBytes + 8 * i + 7] == std::byte{0});
  }
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(static_cast<std::size_t>(frame[kHeaderBytes + 40 + i]) == 6 + i);
  }
}

TEST_CASE("a truncated or lengthened frame is refused") {
  RandomMessages draw(1);
  Rng rng(1);
  for (std::size_t type = 0; type < kTypes; ++type) {
    CAPTURE(type);
    Buffer frame = frame_of(draw.peer(), draw.of_type(type), random_bytes(rng, 100));
    for (std::size_t size = 0; size < frame.size(); ++size) {
      CHECK(!decode(std::span(frame).first(size)).ok());
    }
    frame.push_back(std::byte{});
    CHECK(!decode(frame).ok());
  }
}

TEST_CASE("a frame changed by a sender who can compute checksums is refused or still canonical") {
  std::uint64_t refused = 0;
  std::uint64_t accepted = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    RandomMessages draw(seed);
    Rng rng(seed + 1000);
    for (std::size_t type = 0; type < kTypes; ++type) {
      Buffer frame = frame_of(draw.peer(), draw.of_type(type), random_bytes(rng, 40));
      for (std::uint64_t edits = 1 + rng.below(3); edits > 0; --edits) {
        // Often in the header: that is where the lengths are.
        const std::size_t region = rng.chance(0.3) ? kHeaderBytes : frame.size();
        frame[rng.below(region)] = static_cast<std::byte>(rng.next());
      }
      if (rng.chance(0.2)) frame.resize(kHeaderBytes + rng.below(200));
      seal(frame);
      auto decoded = decode(frame);
      (decoded.ok() ? accepted : refused) += 1;
      if (decoded.ok()) CHECK(is_canonical(frame, decoded.value()));
    }
  }
  CHECK(refused > 1000);
  CHECK(accepted > 1000);
}

TEST_CASE("random bytes are refused") {
  Rng rng(3);
  for (int i = 0; i < 20000; ++i) {
    Buffer bytes = random_bytes(rng, rng.below(200));
    CHECK(!decode(bytes).ok());
  }
}

TEST_CASE("a version that is not spoken is told apart from damage") {
  Buffer frame = encode(PeerId{2}, Leave{});
  auto other = decode_with(frame, 4, kVersions.max + 1);
  REQUIRE(!other.ok());
  CHECK(other.error().code() == ErrorCode::kIncompatible);
  Buffer damaged = encode(PeerId{2}, Leave{});
  damaged.back() ^= std::byte{1};
  auto decoded = decode(damaged);
  REQUIRE(!decoded.ok());
  CHECK(decoded.error().code() == ErrorCode::kCorrupt);
}

TEST_CASE("a frame with any one bit flipped is refused, and as no lie of its sender") {
  RandomMessages draw(8);
  Rng rng(8);
  for (std::size_t type = 0; type < kTypes; ++type) {
    CAPTURE(type);
    Buffer frame = frame_of(draw.peer(), draw.of_type(type), random_bytes(rng, 100));
    for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
      CAPTURE(bit);
      const auto mask = static_cast<std::byte>(1U << (bit % 8));
      frame[bit / 8] ^= mask;
      auto decoded = decode(frame);
      REQUIRE(!decoded.ok());
      CHECK(decoded.error().code() != ErrorCode::kProtocol);
      frame[bit / 8] ^= mask;
    }
    CHECK(decode(frame).ok());
  }
}

TEST_CASE("the fullest message about parts of the data stays under 1800 bytes") {
  Parts full;
  while (!full.passes.full()) REQUIRE(full.passes.try_push({1, 1}));
  PartClaim claim;
  while (!claim.parts.full()) REQUIRE(claim.parts.try_push(1));
  while (!full.claims.full()) REQUIRE(full.claims.try_push(claim));
  CHECK(encode(PeerId{1}, full).size() == 1794);
}

TEST_CASE("frames of every version in the range are understood, and greetings in all of them") {
  constexpr Versions kBoth{1, 2};
  RandomMessages draw(6);
  Rng rng(6);
  for (std::size_t type = 0; type < kTypes; ++type) {
    CAPTURE(type);
    const Message message = draw.of_type(type);
    Buffer frame(kBulkHeadBytes + 40);
    if (is_bulk(message)) {
      encode_bulk_head(PeerId{7}, message, frame, 2);
    } else {
      frame = encode(PeerId{7}, message, 2);
    }
    auto decoded = decode(frame, kBoth);
    REQUIRE(decoded.ok());
    CHECK(decoded.value().version == (is_greeting(message) ? kGreetingVersion : 2));
    CHECK(decode(frame, {2, 2}).ok());
    // One who speaks only the older version understands the greeting, and nothing else.
    CHECK(decode(frame, {1, 1}).ok() == is_greeting(message));
    CHECK(decode(frame, {3, 4}).ok() == is_greeting(message));
  }
}

namespace {

// What a message will look like that has gained a field.
struct Grown {
  std::uint32_t old_field = 1;
  std::uint32_t new_field = 2;
};

template <class Archive>
void serialize(Archive& archive, Grown& grown) {
  archive(grown.old_field);
  if (archive.version() >= 2) archive(grown.new_field);
}

}  // namespace

TEST_CASE("a field that version 2 brings is absent from version 1 and keeps its default") {
  const Grown sent{.old_field = 10, .new_field = 20};
  for (const std::uint8_t version : {std::uint8_t{1}, std::uint8_t{2}}) {
    CAPTURE(int{version});
    Buffer body;
    WireOut out(body, version);
    out(sent);
    CHECK(body.size() == 4U * version);
    WireIn in(body, version);
    Grown got;
    in(got);
    CHECK(in.remaining() == 0);
    CHECK(got.old_field == 10);
    CHECK(got.new_field == (version == 2 ? 20 : 2));
  }
}

TEST_CASE("a pong tells the time of day from version 2 on, and no other than there can be") {
  const Pong told{
      .nonce = 3, .records = {}, .ages = {}, .tokens = {}, .time_of_day = kTimeOfDayMax};
  const auto heard = [](const Frame& frame) { return std::get<Pong>(frame.message).time_of_day; };
  auto old = decode(encode(PeerId{1}, told, 1));
  REQUIRE(old.ok());
  CHECK(heard(old.value()) == 0);
  Buffer frame = encode(PeerId{1}, told, 2);
  CHECK(frame.size() == encode(PeerId{1}, told, 1).size() + sizeof told.time_of_day);
  auto now = decode(frame);
  REQUIRE(now.ok());
  CHECK(heard(now.value()) == kTimeOfDayMax);
  const std::size_t time_at = frame.size() - sizeof told.time_of_day;
  CHECK(!decode_with(frame, time_at, 1).ok());  // a microsecond later
  for (std::size_t i = 0; i < sizeof told.time_of_day; ++i) frame[time_at + i] = std::byte{255};
  seal(frame);
  CHECK(!decode(frame).ok());
}

TEST_CASE("offers and their answers tell how late a fragment is from version 4 on") {
  Offer offer;
  offer.lag_s = 2.5F;
  Accept accept;
  accept.lag_s = 1e9F;
  for (std::uint8_t version = 1; version <= 4; ++version) {
    CAPTURE(version);
    auto offered = decode(encode(PeerId{1}, offer, version));
    auto accepted = decode(encode(PeerId{1}, accept, version));
    REQUIRE((offered.ok() && accepted.ok()));
    CHECK(std::get<Offer>(offered.value().message).lag_s == (version >= 4 ? 2.5F : 0.0F));
    CHECK(std::get<Accept>(accepted.value().message).lag_s == (version >= 4 ? 1e9F : 0.0F));
  }
  CHECK(encode(PeerId{1}, offer, 4).size() == encode(PeerId{1}, offer, 3).size() + 4);
}

TEST_CASE("counts of tokens tell their age from version 3 on") {
  Ping told{.nonce = 3, .records = {}, .ages = {}, .tokens = {}};
  TokenEntry count{{PeerId{3}, 1}, 5, 0.5F, stand_in_key(PeerId{3}), {}};
  for (const std::uint16_t age : {std::uint16_t{7}, std::uint16_t{65535}}) {
    count.age_s = age;
    REQUIRE(told.tokens.try_push(count));
  }
  const auto ages = [&told](std::uint8_t version) {
    auto frame = decode(encode(PeerId{1}, told, version));
    REQUIRE(frame.ok());
    const auto& heard = std::get<Ping>(frame.value().message).tokens;
    return std::pair(int{heard[0].age_s}, int{heard[1].age_s});
  };
  CHECK(ages(2) == std::pair(0, 0));
  CHECK(ages(3) == std::pair(7, 65535));
  CHECK(encode(PeerId{1}, told, 3).size() == encode(PeerId{1}, told, 2).size() + 2 * 2);
}

TEST_CASE("payloads up to the limit pass, and larger or empty ones do not") {
  RandomMessages draw(4);
  const Message head = draw.of_type(Message(Delta{}).index());
  Rng rng(4);
  const Buffer payload = random_bytes(rng, kPayloadBytesMax);
  Buffer frame = frame_of(PeerId{9}, head, payload);
  auto decoded = decode(frame);
  REQUIRE(decoded.ok());
  CHECK(same(decoded.value().payload, payload));
  frame.push_back(std::byte{});
  const auto bytes = static_cast<std::uint32_t>(kPayloadBytesMax + 1);
  std::memcpy(frame.data() + 12, &bytes, sizeof bytes);
  seal(frame);
  CHECK(!decode(frame).ok());
  frame.resize(kBulkHeadBytes);
  std::memset(frame.data() + 12, 0, 4);
  seal(frame);
  CHECK(!decode(frame).ok());
}

TEST_CASE("a bulk head with something in its padding is refused") {
  RandomMessages draw(5);
  Rng rng(5);
  Buffer frame = frame_of(PeerId{9}, draw.of_type(Message(Push{}).index()), random_bytes(rng, 64));
  CHECK(decode_with(frame, kBulkHeadBytes - 9, 0).ok());
  CHECK(!decode_with(frame, kBulkHeadBytes - 9, 1).ok());
}

}  // namespace starling::gossip
