// PublicKey: who a peer is, for everybody. 32 bytes of an Ed25519 public key, shown as 64
// lower-case hex digits; net/identity.h has the secret half.
//
// The PeerId is its first 8 bytes, so the id that logs show is the beginning of the key. To take
// another peer's id one must make about 2^64 key pairs and be admitted with the one found.
//
// The sign bit of a key (RFC 8032 section 5.1.2) is zero: keys are drawn until it is. So the
// transport key of a peer (X25519, which has no sign) and its identity determine each other.
// Thread: plain values.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"

namespace starling::gossip {

struct PublicKey {
  std::array<std::uint8_t, 32> bytes{};
  friend auto operator<=>(const PublicKey&, const PublicKey&) = default;
};

using Signature = std::array<std::uint8_t, 64>;  // of Ed25519

PeerId id_of(const PublicKey& key);
std::string to_string(const PublicKey& key);
std::string to_string(PeerId id);  // 16 hex digits, the first of its key's
// 64 hex digits of a key that names somebody and has no sign. Whether it is a point of the curve
// shows when it is used.
std::optional<PublicKey> parse_public_key(std::string_view text);
// Could this be a peer's key?
bool names_a_peer(const PublicKey& key);

// A key that leads to `id` and to nothing else, where no secret exists: simulators and tests.
PublicKey stand_in_key(PeerId id);

}  // namespace starling::gossip
