#include "gossip/wire/wire.h"

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/assert.h"
#include "base/hash.h"
#include "gossip/wire/wire_archive.h"
#include "gossip/wire/wire_bodies.h"

namespace starling::gossip {

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
static_assert(kTypes == 32);
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
  HeaderFields fields{.from = PeerId{get<std::uint64_t>(frame, kSenderAt)},
                      .version = get<std::uint8_t>(frame, kVersionAt),
                      .type = get<std::uint8_t>(frame, kTypeAt),
                      .body_bytes = get<std::uint32_t>(frame, kBodyBytesAt),
                      .payload_bytes = get<std::uint32_t>(frame, kPayloadBytesAt)};
  const bool bulk = is_bulk_type(fields.type);
  const std::size_t head = bulk ? kBulkHeadBytes : kHeaderBytes + fields.body_bytes;
  const bool sizes_agree = frame.size() == head + fields.payload_bytes;
  if (get<std::uint32_t>(frame, 0) != kMagic) {  // of what is a frame otherwise: a bit of it fell
    return Error(sizes_agree ? ErrorCode::kCorrupt : ErrorCode::kProtocol, "wrong magic");
  }
  const bool greeting = is_greeting_type(fields.type);
  const Versions legal = greeting ? Versions{kGreetingVersion, kGreetingVersion} : spoken;
  if (fields.version < legal.min || fields.version > legal.max) {
    return Error(ErrorCode::kIncompatible, "version " + std::to_string(fields.version) +
                                               " of the wire, where " + std::to_string(legal.min) +
                                               " to " + std::to_string(legal.max) + " belong");
  }
  if (!sizes_agree) return Error(ErrorCode::kCorrupt, "its lengths and its size disagree");
  if (get<std::uint64_t>(frame, kChecksumAt) != checksum(frame)) {
    return Error(ErrorCode::kCorrupt, "wrong checksum");
  }
  if (fields.type == 0 || fields.type > kTypes) return Error(ErrorCode::kProtocol, "unknown type");
  if (get<std::uint16_t>(frame, kFlagsAt) != 0) return Error(ErrorCode::kProtocol, "unknown flags");
  if (fields.from.value == 0) return Error(ErrorCode::kProtocol, "a message from nobody");
  const std::size_t frame_max = bulk ? kBulkFrameBytesMax : kControlFrameBytesMax;
  if (frame.size() > frame_max) return Error(ErrorCode::kProtocol, "larger than any message");
  if (bulk != (fields.payload_bytes > 0)) {
    return Error(ErrorCode::kProtocol, "a payload where none belongs, or none where one does");
  }
  if (bulk && fields.body_bytes > kBulkHeadBytes - kHeaderBytes - kDigestBytes) {
    return Error(ErrorCode::kProtocol, "the body is too long");
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

RejectReason undecoded_reason(ErrorCode code) {
  if (code == ErrorCode::kCorrupt) return RejectReason::kDamaged;
  if (code == ErrorCode::kIncompatible) return RejectReason::kOtherVersion;
  return RejectReason::kMalformed;
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
