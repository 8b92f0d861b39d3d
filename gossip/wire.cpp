#include "gossip/wire.h"

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/assert.h"
#include "base/hash.h"
#include "gossip/wire_archive.h"

namespace starling::gossip {

// --- bodies: one function per struct, for both directions, fields in the order of messages.h ---

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
  archive(record.key, record.address, Ranged<Health>{record.health, Health::kLeft},
          record.dialable);
  if constexpr (Archive::is_loading::value) {
    if (record.key.id != id_of(record.address.key)) throw cereal::Exception("another's key");
  }
}

template <class Archive>
void serialize(Archive& archive, TokenEntry& entry) {
  archive(entry.key, entry.tokens, entry.rate);
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
  archive(Ranged<RefuseReason>{message.reason, RefuseReason::kSecret}, message.identity,
          message.address);
}

template <class Archive>
void serialize(Archive& archive, Ping& message) {
  archive(message.nonce, message.records, message.tokens);
}

template <class Archive>
void serialize(Archive& archive, Pong& message) {
  archive(message.nonce, message.records, message.tokens);
}

template <class Archive>
void serialize(Archive& archive, Leave& message) {
  archive(message.key);
}

template <class Archive>
void serialize(Archive& archive, Offer& message) {
  archive(message.exchange, message.fragment, message.stripes, message.format, message.cold,
          message.weight, message.mixing, message.clip_radius, message.patience_ms);
}

template <class Archive>
void serialize(Archive& archive, Accept& message) {
  archive(message.exchange, message.format, message.weight, message.mixing, message.clip_radius,
          message.window);
}

template <class Archive>
void serialize(Archive& archive, Decline& message) {
  archive(message.exchange, Ranged<DeclineReason>{message.reason, DeclineReason::kMuted},
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
  archive(Ranged<StateReason>{message.reason, StateReason::kFinished}, message.retry_after_ms);
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

template <class Archive>
void serialize(Archive& archive, Abandoned& message) {
  archive(message.ref, Ranged<RejectReason>{message.reason, RejectReason::kWrongName});
}

template <class Archive>
void serialize(Archive& archive, Abort& message) {
  archive(message.ref, Ranged<RejectReason>{message.reason, RejectReason::kWrongName});
}

// Commit, Committed, Query, Resend, Push and Delta name a stripe and no more.
template <class T>
concept NamesStripe = std::is_same_v<decltype(T::ref), StripeRef> && sizeof(T) == sizeof(StripeRef);

template <class Archive, NamesStripe T>
void serialize(Archive& archive, T& message) {
  archive(message.ref);
}

namespace {

constexpr std::uint32_t kMagic = 0x4C525453;  // "STRL"
constexpr std::size_t kDigestBytes = 8;

// Where the fields of the header start.
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kTypeAt = 5;
constexpr std::size_t kFlagsAt = 6;
constexpr std::size_t kBodyBytesAt = 8;
constexpr std::size_t kPayloadBytesAt = 12;
constexpr std::size_t kSenderAt = 16;
constexpr std::size_t kChecksumAt = 24;

// A message's type on the wire is its place in Message, counted from 1: changing the order of
// Message is changing the wire, and a new one stands behind the others.
constexpr std::size_t kTypes = std::variant_size_v<Message>;
static_assert(std::is_same_v<std::variant_alternative_t<0, Message>, Hello>);
static_assert(std::is_same_v<std::variant_alternative_t<16, Message>, Push>);
static_assert(std::is_same_v<std::variant_alternative_t<17, Message>, Delta>);
static_assert(std::is_same_v<std::variant_alternative_t<18, Message>, Parts>);
static_assert(std::is_same_v<std::variant_alternative_t<23, Message>, Piece>);
static_assert(std::is_same_v<std::variant_alternative_t<24, Message>, BulkHello>);
static_assert(kTypes == 25);
constexpr std::uint8_t kPushType = 17;
constexpr std::uint8_t kDeltaType = 18;
constexpr std::uint8_t kPieceType = 24;

template <class T>
void put(std::span<std::byte> frame, std::size_t at, T value) {
  std::memcpy(frame.subspan(at, sizeof value).data(), &value, sizeof value);
}

template <class T>
T get(std::span<const std::byte> frame, std::size_t at) {
  T value;
  std::memcpy(&value, frame.subspan(at, sizeof value).data(), sizeof value);
  return value;
}

bool is_bulk_type(std::uint8_t type) {
  return type == kPushType || type == kDeltaType || type == kPieceType;
}

bool is_greeting_type(std::uint8_t type) {
  static_assert(std::is_same_v<std::variant_alternative_t<2, Message>, Refuse>);
  return type >= 1 && type <= 3;
}

// Bytes before the payload, as far as `frame` has them.
std::size_t head_bytes(std::span<const std::byte> frame) {
  if (!is_bulk_type(get<std::uint8_t>(frame, kTypeAt))) return frame.size();
  return std::min(kBulkHeadBytes, frame.size());
}

// Of the header (but the checksum itself) and the body region, with the padding of a bulk head.
std::uint64_t checksum(std::span<const std::byte> frame) {
  const auto body = frame.subspan(kHeaderBytes, head_bytes(frame) - kHeaderBytes);
  return digest(body, digest(frame.first(kChecksumAt)));
}

struct HeaderFields {
  PeerId from;
  std::uint8_t version = 0;
  std::uint8_t type = 0;
  std::size_t body_bytes = 0;
  std::size_t payload_bytes = 0;
};

void put_header(std::span<std::byte> frame, const HeaderFields& fields) {
  put(frame, 0, kMagic);
  put(frame, kVersionAt, fields.version);
  put(frame, kTypeAt, fields.type);
  put(frame, kFlagsAt, std::uint16_t{0});
  put(frame, kBodyBytesAt, static_cast<std::uint32_t>(fields.body_bytes));
  put(frame, kPayloadBytesAt, static_cast<std::uint32_t>(fields.payload_bytes));
  put(frame, kSenderAt, fields.from.value);
}

std::uint8_t type_of(const Message& message) {
  return static_cast<std::uint8_t>(message.index() + 1);
}

void append_body(std::vector<std::byte>& out, const Message& message, std::uint8_t version) {
  WireOut archive(out, version);
  std::visit([&archive](const auto& body) { archive(body); }, message);
}

template <std::size_t kIndex>
Message load(WireIn& archive) {
  std::variant_alternative_t<kIndex, Message> body{};
  archive(body);
  return Message(std::in_place_index<kIndex>, body);
}

template <std::size_t... kIndices>
Message load_type(std::uint8_t type, WireIn& archive, std::index_sequence<kIndices...>) {
  using Loader = Message (*)(WireIn&);
  static constexpr std::array<Loader, kTypes> kLoaders{&load<kIndices>...};
  return kLoaders[type - 1U](archive);
}

Result<Message> decode_body(const HeaderFields& fields, std::span<const std::byte> body) {
  try {
    WireIn archive(body, fields.version);
    Message message = load_type(fields.type, archive, std::make_index_sequence<kTypes>());
    if (archive.remaining() != 0) return Error(ErrorCode::kProtocol, "the body is too long");
    return message;
  } catch (const std::exception& exception) {
    return Error(ErrorCode::kProtocol, exception.what());
  }
}

// What the header says, after everything in it was found to agree with the frame's size.
Result<HeaderFields> check_header(std::span<const std::byte> frame, Versions spoken) {
  if (frame.size() < kHeaderBytes) return Error(ErrorCode::kProtocol, "shorter than a header");
  if (get<std::uint32_t>(frame, 0) != kMagic) return Error(ErrorCode::kProtocol, "wrong magic");
  HeaderFields fields{.from = PeerId{get<std::uint64_t>(frame, kSenderAt)},
                      .version = get<std::uint8_t>(frame, kVersionAt),
                      .type = get<std::uint8_t>(frame, kTypeAt),
                      .body_bytes = get<std::uint32_t>(frame, kBodyBytesAt),
                      .payload_bytes = get<std::uint32_t>(frame, kPayloadBytesAt)};
  const bool greeting = is_greeting_type(fields.type);
  const Versions legal = greeting ? Versions{kGreetingVersion, kGreetingVersion} : spoken;
  if (fields.version < legal.min || fields.version > legal.max) {
    return Error(ErrorCode::kIncompatible, "version " + std::to_string(fields.version) +
                                               " of the wire, where " + std::to_string(legal.min) +
                                               " to " + std::to_string(legal.max) + " belong");
  }
  if (fields.type == 0 || fields.type > kTypes) return Error(ErrorCode::kProtocol, "unknown type");
  if (get<std::uint16_t>(frame, kFlagsAt) != 0) return Error(ErrorCode::kProtocol, "unknown flags");
  if (fields.from.value == 0) return Error(ErrorCode::kProtocol, "a message from nobody");

  const bool bulk = is_bulk_type(fields.type);
  const std::size_t head = bulk ? kBulkHeadBytes : kHeaderBytes + fields.body_bytes;
  const std::size_t frame_max = bulk ? kBulkFrameBytesMax : kControlFrameBytesMax;
  if (frame.size() > frame_max) return Error(ErrorCode::kProtocol, "larger than any message");
  if (frame.size() != head + fields.payload_bytes) {
    return Error(ErrorCode::kCorrupt, "its lengths and its size disagree");
  }
  if (bulk != (fields.payload_bytes > 0)) {
    return Error(ErrorCode::kProtocol, "a payload where none belongs, or none where one does");
  }
  if (bulk && fields.body_bytes > kBulkHeadBytes - kHeaderBytes - kDigestBytes) {
    return Error(ErrorCode::kProtocol, "the body is too long");
  }
  if (get<std::uint64_t>(frame, kChecksumAt) != checksum(frame)) {
    return Error(ErrorCode::kCorrupt, "wrong checksum");
  }
  return fields;
}

// The rest of a bulk head behind its body: zeros, then the payload's digest.
Status check_bulk_head(std::span<const std::byte> frame, std::size_t body_bytes) {
  const std::size_t digest_at = kBulkHeadBytes - kDigestBytes;
  const auto padding = frame.first(digest_at).subspan(kHeaderBytes + body_bytes);
  if (!std::all_of(padding.begin(), padding.end(), [](std::byte b) { return b == std::byte{}; })) {
    return Error(ErrorCode::kProtocol, "the padding is not zero");
  }
  if (get<std::uint64_t>(frame, digest_at) != digest(frame.subspan(kBulkHeadBytes))) {
    return Error(ErrorCode::kCorrupt, "wrong digest of the payload");
  }
  return ok_status();
}

}  // namespace

bool valid_host(std::string_view host) {
  constexpr std::string_view kMarks = ".-_:%";
  const auto valid = [kMarks](char c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || (c >= '0' && c <= '9') || kMarks.find(c) != std::string_view::npos;
  };
  return !host.empty() && std::all_of(host.begin(), host.end(), valid);
}

void seal(std::span<std::byte> frame) {
  STARLING_ASSERT(frame.size() >= kHeaderBytes);
  if (is_bulk_type(get<std::uint8_t>(frame, kTypeAt)) && frame.size() >= kBulkHeadBytes) {
    put(frame, kBulkHeadBytes - kDigestBytes, digest(frame.subspan(kBulkHeadBytes)));
  }
  put(frame, kChecksumAt, checksum(frame));
}

std::vector<std::byte> encode(PeerId from, const Message& message, std::uint8_t version) {
  const std::uint8_t type = type_of(message);
  STARLING_ASSERT(!is_bulk_type(type));
  if (is_greeting(message)) version = kGreetingVersion;
  std::vector<std::byte> frame(kHeaderBytes);
  append_body(frame, message, version);
  STARLING_ASSERT(frame.size() <= kControlFrameBytesMax);
  put_header(
      frame,
      {.from = from, .version = version, .type = type, .body_bytes = frame.size() - kHeaderBytes});
  seal(frame);
  return frame;
}

void encode_bulk_head(PeerId from, const Message& head, std::span<std::byte> frame,
                      std::uint8_t version) {
  const std::uint8_t type = type_of(head);
  STARLING_ASSERT(is_bulk_type(type));
  STARLING_ASSERT(frame.size() > kBulkHeadBytes);
  STARLING_ASSERT(frame.size() <= kBulkFrameBytesMax);
  std::vector<std::byte> body;
  append_body(body, head, version);
  STARLING_ASSERT(body.size() <= kBulkHeadBytes - kHeaderBytes - kDigestBytes);
  std::fill_n(frame.begin(), kBulkHeadBytes, std::byte{});
  std::copy(body.begin(), body.end(), frame.begin() + kHeaderBytes);
  put_header(frame, {.from = from,
                     .version = version,
                     .type = type,
                     .body_bytes = body.size(),
                     .payload_bytes = frame.size() - kBulkHeadBytes});
  seal(frame);
}

Result<Frame> decode(std::span<const std::byte> frame, Versions spoken) {
  auto header = check_header(frame, spoken);
  if (!header.ok()) return std::move(header).error();
  const HeaderFields& fields = header.value();
  auto body = decode_body(fields, frame.subspan(kHeaderBytes, fields.body_bytes));
  if (!body.ok()) return std::move(body).error();
  if (!is_bulk_type(fields.type)) {
    return Frame{fields.from, fields.version, std::move(body).value(), {}};
  }
  auto head = check_bulk_head(frame, fields.body_bytes);
  if (!head.ok()) return std::move(head).error();
  return Frame{fields.from, fields.version, std::move(body).value(), frame.subspan(kBulkHeadBytes)};
}

}  // namespace starling::gossip
