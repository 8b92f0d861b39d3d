#include "gossip/net/identity.h"

#include <sodium.h>

#include <algorithm>

#include "base/assert.h"

namespace starling::gossip {
namespace {

static_assert(sizeof(SeedBytes) == crypto_sign_ed25519_SEEDBYTES);
static_assert(sizeof(Signature) == crypto_sign_ed25519_BYTES);
static_assert(sizeof(CurveKey) == crypto_scalarmult_curve25519_BYTES);

struct SecretKey {
  std::array<std::uint8_t, crypto_sign_ed25519_SECRETKEYBYTES> bytes{};
  ~SecretKey() { sodium_memzero(bytes.data(), bytes.size()); }
};

// Repeating it is free.
void start_sodium() { STARLING_ASSERT(::sodium_init() >= 0); }

SecretKey secret_key_of(const SeedBytes& seed, PublicKey& key) {
  start_sodium();
  SecretKey secret;
  ::crypto_sign_ed25519_seed_keypair(key.bytes.data(), secret.bytes.data(), seed.data());
  return secret;
}

const unsigned char* bytes_of(std::span<const std::byte> message) {
  return reinterpret_cast<const unsigned char*>(message.data());
}

// --- arithmetic modulo p = 2^255 - 19, for the map back to Ed25519. Of public values only, so it
// --- need not take the same time for all of them. Four limbs of 64 bits, lowest first, below
// 2^256.

__extension__ using Wide = unsigned __int128;
using Limbs = std::array<std::uint64_t, 4>;
constexpr Limbs kP{0xFFFFFFFFFFFFFFED, ~std::uint64_t{0}, ~std::uint64_t{0}, 0x7FFFFFFFFFFFFFFF};
constexpr std::uint64_t kFold = 38;  // 2^256 mod p

// value + carry * 2^256.
Limbs fold(Limbs value, std::uint64_t carry) {
  while (carry != 0) {
    Wide sum = Wide{carry} * kFold;
    for (std::uint64_t& limb : value) {
      sum += limb;
      limb = static_cast<std::uint64_t>(sum);
      sum >>= 64;
    }
    carry = static_cast<std::uint64_t>(sum);
  }
  return value;
}

Limbs add(const Limbs& left, const Limbs& right) {
  Limbs out{};
  Wide sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    sum += Wide{left[i]} + right[i];
    out[i] = static_cast<std::uint64_t>(sum);
    sum >>= 64;
  }
  return fold(out, static_cast<std::uint64_t>(sum));
}

Limbs multiply(const Limbs& left, const Limbs& right) {
  std::array<std::uint64_t, 8> product{};
  for (std::size_t i = 0; i < left.size(); ++i) {
    Wide sum = 0;
    for (std::size_t j = 0; j < right.size(); ++j) {
      sum += Wide{left[i]} * right[j] + product[i + j];
      product[i + j] = static_cast<std::uint64_t>(sum);
      sum >>= 64;
    }
    product[i + 4] = static_cast<std::uint64_t>(sum);
  }
  Limbs out{};
  Wide sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    sum += Wide{product[i + 4]} * kFold + product[i];
    out[i] = static_cast<std::uint64_t>(sum);
    sum >>= 64;
  }
  return fold(out, static_cast<std::uint64_t>(sum));
}

// value^(p - 2), its inverse by Fermat's little theorem; 0 for 0. p - 2 has all bits up to 254 set
// but those of worth 4 and 16.
Limbs invert(const Limbs& value) {
  Limbs out{1, 0, 0, 0};
  for (int bit = 254; bit >= 0; --bit) {
    out = multiply(out, out);
    if (bit != 2 && bit != 4) out = multiply(out, value);
  }
  return out;
}

// The one representative below p.
Limbs reduce(Limbs value) {
  while (!std::lexicographical_compare(value.rbegin(), value.rend(), kP.rbegin(), kP.rend())) {
    std::uint64_t borrow = 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      const Wide difference = Wide{value[i]} - kP[i] - borrow;
      value[i] = static_cast<std::uint64_t>(difference);
      borrow = static_cast<std::uint64_t>(difference >> 64) & 1U;
    }
  }
  return value;
}

}  // namespace

Identity Identity::draw() {
  for (;;) {
    if (auto identity = from_seed(draw_secret())) return *identity;
  }
}

std::optional<Identity> Identity::from_seed(const SeedBytes& seed) {
  Identity identity;
  identity.seed_ = seed;
  identity.key_ = ed25519_key_of(seed);
  if (!names_a_peer(identity.key_)) return std::nullopt;
  return identity;
}

Identity::~Identity() { ::sodium_memzero(seed_.data(), seed_.size()); }

Signature Identity::sign(std::span<const std::byte> message) const {
  PublicKey key;
  const SecretKey secret = secret_key_of(seed_, key);
  Signature signature{};
  ::crypto_sign_ed25519_detached(signature.data(), nullptr, bytes_of(message), message.size(),
                                 secret.bytes.data());
  return signature;
}

CurveKey Identity::curve_secret() const {
  PublicKey key;
  const SecretKey secret = secret_key_of(seed_, key);
  CurveKey curve{};
  STARLING_ASSERT(::crypto_sign_ed25519_sk_to_curve25519(curve.data(), secret.bytes.data()) == 0);
  return curve;
}

CurveKey Identity::curve_public() const {
  const auto curve = curve_key_of(key_);
  STARLING_ASSERT(curve.has_value());
  return *curve;
}

bool verify(const PublicKey& key, std::span<const std::byte> message, const Signature& signature) {
  start_sodium();
  return ::crypto_sign_ed25519_verify_detached(signature.data(), bytes_of(message), message.size(),
                                               key.bytes.data()) == 0;
}

std::optional<CurveKey> curve_key_of(const PublicKey& key) {
  start_sodium();
  CurveKey curve{};
  // Refuses what is no point, and points outside the subgroup that keys are in.
  if (::crypto_sign_ed25519_pk_to_curve25519(curve.data(), key.bytes.data()) != 0) {
    return std::nullopt;
  }
  return curve;
}

// y = (u - 1) / (u + 1). A transport key that is not exactly some peer's (on the twist, of small
// order, not reduced, with its unused bit set) does not survive the way back.
std::optional<PublicKey> public_key_of(const CurveKey& curve_key) {
  Limbs u{};
  for (std::size_t i = 0; i < curve_key.size(); ++i) {
    u[i / 8] |= std::uint64_t{curve_key[i]} << (8 * (i % 8));
  }
  Limbs minus_one = kP;
  --minus_one[0];
  const Limbs one{1, 0, 0, 0};
  const Limbs y = reduce(multiply(add(u, minus_one), invert(add(u, one))));
  PublicKey key;
  for (std::size_t i = 0; i < key.bytes.size(); ++i) {
    key.bytes[i] = static_cast<std::uint8_t>(y[i / 8] >> (8 * (i % 8)));
  }
  if (!names_a_peer(key) || curve_key_of(key) != curve_key) return std::nullopt;
  return key;
}

PublicKey ed25519_key_of(const SeedBytes& seed) {
  PublicKey key;
  static_cast<void>(secret_key_of(seed, key));
  return key;
}

std::array<std::uint8_t, 32> draw_secret() {
  start_sodium();
  std::array<std::uint8_t, 32> secret{};
  ::randombytes_buf(secret.data(), secret.size());
  return secret;
}

}  // namespace starling::gossip
