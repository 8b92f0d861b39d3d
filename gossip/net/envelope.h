// Envelope: what a relay carries between two peers that cannot reach each other: one whole frame,
// sealed from end to end. Little-endian, fixed width:
//
//    0  u32  magic "STRR"           56  u64  process of the receiver
//    4  u8   version, 1             64  u64  counter, per sender's process and receiver
//    5  u8   lane: 1 control,       72  24 bytes of nonce, drawn
//             2 bulk                96  the frame, enciphered
//    6  u16  zero                       16 bytes of authenticator
//    8  u64  receiver
//   16  32 bytes: key of the sender
//   48  u64  process of the sender
//
// XChaCha20-Poly1305 (RFC 8439 section 2.8 with the nonce of draft-irtf-cfrg-xchacha-03), the first
// 96 bytes as additional data: a relay can read those, lose an envelope and nothing else. The key
// is a BLAKE2b of both transport keys (identity.h), keyed with their X25519 secret (RFC 7748
// section 6.1): only the two ends have it. Whoever takes one end's secret key later can read what
// he recorded.
//
// Replay: an envelope opens in the one process it is for, and once. A receiver remembers the newest
// kWindow counters of up to kEndsMax senders; what is older, or of an earlier process of the
// sender, is taken for a copy. Partners are forgotten last: strangers, who can be invented, do not
// make room for copies of what those have said.
//
// Versions. Whoever is brought an envelope of a version that he does not know takes it for garbage
// and blames the bringer. A later version may be sent where the sender speaks the wire version that
// brings it, or a higher one, with the receiver and with the relay; everything else, greetings
// among it, goes in version 1. The frame inside has its own version (wire/wire.h): that of the
// pair.
//
// For hostile bytes. Thread: one owner; keys are wiped when they go.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "gossip/net/identity.h"

namespace starling::gossip {

inline constexpr std::size_t kEnvelopeHeadBytes = 96;
inline constexpr std::size_t kEnvelopeBytes = kEnvelopeHeadBytes + 16;  // more than what is inside

struct EnvelopeHead {
  bool bulk = false;
  PeerId to;
  PublicKey from;
  std::uint64_t from_process = 0, to_process = 0;
  std::uint64_t counter = 0;
};

enum class EnvelopeFault : std::uint8_t {
  kNone,
  kMalformed,
  kMisdirected,   // for somebody else
  kOtherProcess,  // for an earlier or a later life of this peer
  kForged,        // not what its sender sealed
  kReplayed,
  kUnread  // one too many of senders from whom none has been opened (envelope_limit.h)
};
inline constexpr std::size_t kEnvelopeFaults = 7;
std::string_view to_string(EnvelopeFault fault);

// Is this one, by its first bytes? No other frame begins so.
bool is_envelope(std::span<const std::byte> frame);
// What its head says; nothing if it is malformed.
std::optional<EnvelopeHead> read_head(std::span<const std::byte> envelope);

class Sealer {
 public:
  static constexpr std::size_t kWindow = 1024;
  static constexpr std::size_t kEndsMax = 1024;  // the longest unused stranger is forgotten
  using IsPartner = std::function<bool(const PublicKey&)>;

  // `process`: number of this process start, higher than at any start before.
  Sealer(
      const Identity& identity, std::uint64_t process,
      IsPartner is_partner = [](const PublicKey&) { return false; });
  Sealer(const Sealer&) = delete;  // two would use the same counters
  Sealer& operator=(const Sealer&) = delete;

  struct Receiver {
    PublicKey key;
    std::uint64_t process = 0;
  };
  // Writes `frame`, sealed, into `envelope`, which is larger by kEnvelopeBytes. False: no peer can
  // have the receiver's key.
  [[nodiscard]] bool seal(const Receiver& to, bool bulk, std::span<const std::byte> frame,
                          std::span<std::byte> envelope);
  // An envelope of it has been opened, or one sealed for it: opening the next is cheap.
  bool knows(const PublicKey& other) const { return ends_.contains(other); }
  bool is_for_us(const EnvelopeHead& head) const {
    return head.to == id_of(self_) && head.to_process == process_;
  }
  // Writes what is inside into `frame`, which is smaller by kEnvelopeBytes. `head` is
  // read_head()'s.
  [[nodiscard]] EnvelopeFault open(std::span<const std::byte> envelope, const EnvelopeHead& head,
                                   std::span<std::byte> frame);

 private:
  struct Key {
    std::array<std::uint8_t, 32> bytes{};
    ~Key();
  };
  struct End {
    Key key;
    std::uint64_t sent = 0;     // the last counter
    std::uint64_t process = 0;  // of theirs, that was heard
    std::uint64_t newest = 0;   // counter heard of it
    std::bitset<kWindow> seen;  // counter newest - i at i
    std::uint64_t used = 0;     // when; counts uses
  };
  std::optional<Key> key_with(const PublicKey& other) const;
  End& end_of(const PublicKey& other, const Key& key);
  void forget_one();
  static bool was_seen(const End& end, const EnvelopeHead& head);
  static void note_seen(End& end, const EnvelopeHead& head);

  const PublicKey self_;
  const Key secret_;
  const std::uint64_t process_;
  const IsPartner is_partner_;
  std::map<PublicKey, End> ends_;
  std::uint64_t last_sent_ =
      0;  // the highest counter of all; an end that was forgotten begins here
  std::uint64_t uses_ = 0;
};

}  // namespace starling::gossip
