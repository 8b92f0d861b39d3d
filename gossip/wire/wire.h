// Wire: what a message looks like as bytes. One message is one frame, little-endian, fixed width.
//
//    0  u32  magic "STRL"            12  u32  payload bytes behind the head (0 on the control lane)
//    4  u8   version                 16  u64  sender
//    5  u8   type                    24  u64  checksum: XXH3 of the body region, seeded with the
//    6  u16  flags, all zero                  XXH3 of bytes 0..23
//    8  u32  body bytes              32       body
//
// Versions. A pair speaks the highest version that both know (RunIdentity::versions); frames of
// every version in the own range are understood. Fields only ever come behind the others, by one
// line in serialize(). Greetings, from which the versions are learnt, always have kGreetingVersion
// and never change: so a refusal for want of a common version is understood too. What a third peer
// passes on has rules of its own: what is signed of a record in record_seal.h, envelopes in
// net/envelope.h. Version 2 brought Pong::time_of_day, version 3 TokenEntry::age_s; version 4
// brought Offer::lag_s, Accept::lag_s and formats (GossipConfig::codes).
//
// A control frame ends with its body. A bulk frame has a head of kBulkHeadBytes: the body, zeros,
// and in the last 8 bytes the XXH3 of the payload; then the payload. The head has a fixed size so
// that the mixer writes its payload behind it before the head is known, and both leave as one frame
// without a copy.
//
// decode() is for hostile bytes: every length is checked before it is used, no size on the wire
// leads to an allocation, enumerations, flags, floats and host names are range-checked, and a
// frame must be used up exactly. What it accepts is canonical: encoding it again gives the same
// bytes, but for the reason of a refusal or of an end that only a later version knows: that is read
// as the nearest of ours. A record names a peer by its key and by the id that belongs to it, or is
// malformed. The sender is a claim here; the link compares it with who is at the other end. Errors:
// kIncompatible (another wire version), kCorrupt (damaged, looked for before what the frame says is
// judged), kProtocol (malformed: its sender meant it). Thread: free functions without state.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "gossip/messages.h"

namespace starling::gossip {

inline constexpr std::uint8_t kGreetingVersion = 1;
inline constexpr std::size_t kHeaderBytes = 32;
inline constexpr std::size_t kBulkHeadBytes = 128;  // a multiple of 64: the payload stays aligned
inline constexpr std::size_t kControlFrameBytesMax = 16 * 1024;
inline constexpr std::size_t kPayloadBytesMax = (1024 + 64) * 1024;
inline constexpr std::size_t kBulkFrameBytesMax = kBulkHeadBytes + kPayloadBytesMax;

struct Frame {
  PeerId from;
  std::uint8_t version = 0;
  Message message;
  std::span<const std::byte> payload;  // into the decoded bytes; empty on the control lane
};

// A whole control frame. `message` must not be a head of a payload.
std::vector<std::byte> encode(PeerId from, const Message& message,
                              std::uint8_t version = kVersions.max);

// Writes the head into the first kBulkHeadBytes of `frame`; the payload, at least one byte, lies
// behind them already. `head` is a Push, a Delta or a Piece.
void encode_bulk_head(PeerId from, const Message& head, std::span<std::byte> frame,
                      std::uint8_t version = kVersions.max);

Result<Frame> decode(std::span<const std::byte> frame, Versions spoken = kVersions);

// What a frame that decode() refuses with this code is dropped for. What is damaged its sender has
// not said; what is of another version was on its way when one of the two was started anew.
RejectReason undecoded_reason(ErrorCode code);

// Makes the checksums of `frame` right again. For those who build frames by hand: encode() and
// tests. Needs at least a header, and nothing else to be valid.
void seal(std::span<std::byte> frame);

}  // namespace starling::gossip
