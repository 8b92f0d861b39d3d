// Identity: the secret half of a peer's key, and what libsodium does with it. One seed of 32 bytes
// gives an Ed25519 key pair, which signs, and its image on Curve25519, which encrypts links: so one
// key is who a peer is, how it signs and how it is reached.
//
// The map between the two curves is that of RFC 7748 section 4.1: u = (1 + y) / (1 - y). It loses
// the sign of x, and keys here have none (public_key.h), so it can be turned round: the server of a
// CURVE handshake learns from the client's transport key who the client is.
//
// Not secret: public keys and signatures. A seed is wiped when its Identity goes.
// Thread: plain values; sodium is started by the first call, from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "gossip/public_key.h"
#include "gossip/record_seal.h"

namespace starling::gossip {

using CurveKey = std::array<std::uint8_t, 32>;  // of X25519: public or secret
using SeedBytes = std::array<std::uint8_t, 32>;

class Identity {
 public:
  static Identity draw();  // a new peer
  // Empty if the seed's key has a sign: no peer's seed does.
  static std::optional<Identity> from_seed(const SeedBytes& seed);
  ~Identity();
  Identity(const Identity&) = default;
  Identity& operator=(const Identity&) = default;

  const PublicKey& key() const { return key_; }
  PeerId id() const { return id_of(key_); }
  const SeedBytes& seed() const { return seed_; }
  Signature sign(std::span<const std::byte> message) const;
  CurveKey curve_secret() const;
  CurveKey curve_public() const;

 private:
  Identity() = default;
  SeedBytes seed_{};
  PublicKey key_;
};

bool verify(const PublicKey& key, std::span<const std::byte> message, const Signature& signature);

// Signs records with `identity`, which outlives it.
class IdentitySeal final : public RecordSeal {
 public:
  explicit IdentitySeal(const Identity& identity) : identity_(identity) {}
  Signature sign(std::span<const std::byte> text) const override { return identity_.sign(text); }
  bool verify(const PublicKey& key, std::span<const std::byte> text,
              const Signature& signature) const override {
    return gossip::verify(key, text, signature);
  }

 private:
  const Identity& identity_;
};

// The transport key of `key`; empty if no peer can have such a key.
std::optional<CurveKey> curve_key_of(const PublicKey& key);
// The peer whose transport key this is; empty if it is nobody's.
std::optional<PublicKey> public_key_of(const CurveKey& curve_key);

// The Ed25519 public key of any seed, whatever its sign: what the test vectors of RFC 8032 name.
PublicKey ed25519_key_of(const SeedBytes& seed);

// 32 bytes nobody can guess.
std::array<std::uint8_t, 32> draw_secret();

}  // namespace starling::gossip
