#include "gossip/net/identity.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "base/rng.h"
#include "gossip/token_seal.h"

namespace starling::gossip {
namespace {

template <std::size_t kBytes>
std::array<std::uint8_t, kBytes> from_hex(std::string_view hex) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  REQUIRE(hex.size() == 2 * kBytes);
  std::array<std::uint8_t, kBytes> bytes{};
  for (std::size_t i = 0; i < hex.size(); ++i) {
    bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] << 4 | kDigits.find(hex[i]));
  }
  return bytes;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// RFC 8032 section 7.1, tests 1 to 3.
struct Vector {
  const char* seed;
  const char* key;
  std::string message;
  const char* signature;
};
const std::array<Vector, 3> kVectors{{
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b"
     "46"
     "bd25bf5f0595bbe24655141438e7a100b"},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "\x72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11"
     "d8"
     "c387b2eaeb4302aeeb00d291612bb0c00"},
    {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "\xaf\x82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc"
     "65"
     "94a7c15e9716ed28dc027beceea1ec40a"},
}};

}  // namespace

TEST_CASE("keys and signatures are those of RFC 8032") {
  for (const Vector& vector : kVectors) {
    CAPTURE(vector.key);
    const PublicKey key = ed25519_key_of(from_hex<32>(vector.seed));
    CHECK(key.bytes == from_hex<32>(vector.key));
    CHECK(verify(key, bytes_of(vector.message), from_hex<64>(vector.signature)));
    const auto identity = Identity::from_seed(from_hex<32>(vector.seed));
    CHECK(identity.has_value() == names_a_peer(key));
    if (identity) CHECK(identity->sign(bytes_of(vector.message)) == from_hex<64>(vector.signature));
  }
  CHECK(Identity::from_seed(from_hex<32>(kVectors[0].seed)).has_value());
}

TEST_CASE("a changed message, signature or key does not verify") {
  const Identity identity = Identity::draw();
  std::string message = "a record of a peer";
  Signature signature = identity.sign(bytes_of(message));
  CHECK(verify(identity.key(), bytes_of(message), signature));
  CHECK(!verify(Identity::draw().key(), bytes_of(message), signature));
  signature[63] ^= 1;
  CHECK(!verify(identity.key(), bytes_of(message), signature));
  signature[63] ^= 1;
  message[0] = 'b';
  CHECK(!verify(identity.key(), bytes_of(message), signature));
}

TEST_CASE("the transport key tells who the peer is and the key how it is reached") {
  for (int i = 0; i < 50; ++i) {
    const Identity identity = Identity::draw();
    const auto curve = curve_key_of(identity.key());
    REQUIRE(curve.has_value());
    CHECK(*curve == identity.curve_public());
    CHECK(public_key_of(*curve) == identity.key());
    CHECK(Identity::from_seed(identity.seed())->key() == identity.key());
  }
}

TEST_CASE("transport keys that belong to no peer name nobody") {
  CurveKey key{};
  CHECK(!public_key_of(key).has_value());  // of small order
  key[0] = 1;
  CHECK(!public_key_of(key).has_value());
  key.fill(0xFF);  // not reduced
  CHECK(!public_key_of(key).has_value());
  CurveKey minus_one =
      from_hex<32>("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f");
  CHECK(!public_key_of(minus_one).has_value());

  const Identity identity = Identity::draw();
  key = identity.curve_public();
  key[31] |= 0x80;  // the unused bit
  CHECK(!public_key_of(key).has_value());
  // Half of all u lie on the twist, and most points of the curve are outside the subgroup.
  Rng rng(1);
  int found = 0;
  for (int i = 0; i < 400; ++i) {
    for (std::uint8_t& byte : key) byte = static_cast<std::uint8_t>(rng.next());
    if (const auto named = public_key_of(key)) {
      CHECK(curve_key_of(*named) == key);
      ++found;
    }
  }
  CHECK(found < 60);
}

TEST_CASE("a count signed with a real key is believed and a changed one is not") {
  const Identity identity = Identity::draw();
  const IdentitySeal keys(identity);
  const TokenSeal seal(&keys, 7);
  TokenEntry entry{{identity.id(), 3}, 1000, 2.5F, identity.key(), {}};
  seal.sign(entry);
  CHECK(seal.verify(entry));
  CHECK_FALSE(TokenSeal(&keys, 8).verify(entry));
  TokenEntry raised = entry;
  raised.tokens += 1;
  CHECK_FALSE(seal.verify(raised));
  const Identity other = Identity::draw();
  TokenEntry taken = entry;
  taken.owner = other.key();
  CHECK_FALSE(seal.verify(taken));
  taken.key.id = other.id();
  CHECK_FALSE(seal.verify(taken));
}

}  // namespace starling::gossip
