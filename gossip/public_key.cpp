#include "gossip/public_key.h"

#include <cstddef>
#include <span>

namespace starling::gossip {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";
constexpr std::size_t kIdBytes = 8;
constexpr std::uint8_t kSign = 0x80;  // in the last byte

std::string hex(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

PeerId id_of(const PublicKey& key) {
  PeerId id;
  for (std::size_t i = 0; i < kIdBytes; ++i) id.value = id.value << 8 | key.bytes[i];
  return id;
}

std::string to_string(const PublicKey& key) { return hex(key.bytes); }

std::string to_string(PeerId id) {
  const PublicKey key = stand_in_key(id);
  return hex(std::span(key.bytes).first(kIdBytes));
}

std::optional<PublicKey> parse_public_key(std::string_view text) {
  PublicKey key;
  if (text.size() != 2 * key.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    key.bytes[i / 2] = static_cast<std::uint8_t>(key.bytes[i / 2] << 4 | digit);
  }
  if (!names_a_peer(key)) return std::nullopt;
  return key;
}

bool names_a_peer(const PublicKey& key) {
  return id_of(key) != PeerId{} && (key.bytes.back() & kSign) == 0;
}

PublicKey stand_in_key(PeerId id) {
  PublicKey key;
  for (std::size_t i = 0; i < kIdBytes; ++i) {
    key.bytes[i] = static_cast<std::uint8_t>(id.value >> (8 * (kIdBytes - 1 - i)));
  }
  return key;
}

}  // namespace starling::gossip
