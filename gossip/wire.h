// Wire: what a message looks like as bytes. One message is one frame, little-endian, fixed width.
//
//    0  u32  magic "STRL"            12  u32  payload bytes behind the head (0 on the control lane)
//    4  u8   wire version            16  u64  sender
//    5  u8   type                    24  u64  checksum: XXH3 of the body region, seeded with the
//    6  u16  flags, all zero                  XXH3 of bytes 0..23
//    8  u32  body bytes              32       body
//
// A control frame ends with its body. A bulk frame has a head of kBulkHeadBytes: the body, zeros,
// and in the last 8 bytes the XXH3 of the payload; then the payload. The head has a fixed size so
// that the mixer writes its payload behind it before the head is known, and both leave as one frame
// without a copy.
//
// decode() is for hostile bytes: every length is checked before it is used, no size on the wire
// leads to an allocation, enumerations, flags, floats and host names are range-checked, and a
// frame must be used up exactly. What it accepts is canonical: encoding it again gives the same
// bytes. The sender is a claim, not a proof. Errors: kCorrupt (damaged), kProtocol (malformed),
// kIncompatible (another wire version). Thread: free functions without state.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "gossip/messages.h"

namespace starling::gossip {

inline constexpr std::uint8_t kWireVersion = 1;
inline constexpr std::size_t kHeaderBytes = 32;
inline constexpr std::size_t kBulkHeadBytes = 128;  // a multiple of 64: the payload stays aligned
inline constexpr std::size_t kControlFrameBytesMax = 16 * 1024;
inline constexpr std::size_t kPayloadBytesMax = (1024 + 64) * 1024;
inline constexpr std::size_t kBulkFrameBytesMax = kBulkHeadBytes + kPayloadBytesMax;

struct Frame {
  PeerId from;
  Message message;
  std::span<const std::byte> payload;  // into the decoded bytes; empty on the control lane
};

// A whole control frame. `message` must not be a head of a payload.
std::vector<std::byte> encode(PeerId from, const Message& message);

// Writes the head into the first kBulkHeadBytes of `frame`; the payload, at least one byte, lies
// behind them already. `head` is a Push, a Delta or a Piece.
void encode_bulk_head(PeerId from, const Message& head, std::span<std::byte> frame);

Result<Frame> decode(std::span<const std::byte> frame);

// Makes the checksums of `frame` right again. For those who build frames by hand: encode() and
// tests. Needs at least a header, and nothing else to be valid.
void seal(std::span<std::byte> frame);

// May `host` stand in an address? Letters, digits, '.', '-', '_', ':' and '%' only: the transport
// gives other characters a meaning.
bool valid_host(std::string_view host);

}  // namespace starling::gossip
