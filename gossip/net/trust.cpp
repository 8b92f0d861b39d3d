#include "gossip/net/trust.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "gossip/standing.h"

namespace starling::gossip {
namespace {

constexpr std::string_view kTag = "starling greeting 1";
constexpr std::string_view kBlanks = " \t\r";

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

void add_to(crypto_generichash_state& state, const void* bytes, std::size_t count) {
  ::crypto_generichash_update(&state, static_cast<const unsigned char*>(bytes), count);
}

}  // namespace

std::vector<PeerId> AllowList::ids() const {
  std::vector<PeerId> ids;
  ids.reserve(keys_.size());
  for (const auto& [key, name] : keys_) ids.push_back(id_of(key));
  return ids;
}

std::map<PeerId, std::string> AllowList::names() const {
  std::map<PeerId, std::string> names;
  for (const auto& [key, name] : keys_) {
    if (!name.empty()) names.emplace(id_of(key), name);
  }
  return names;
}

void AllowList::add(const PublicKey& key, std::string_view name) {
  std::string shown(name.substr(0, kNameBytesMax));
  std::replace_if(
      shown.begin(), shown.end(), [](char letter) { return !is_printable(letter); }, '?');
  keys_.emplace(key, std::move(shown));
}

Result<AllowList> parse_allow_list(std::string_view text) {
  AllowList list;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = next_line(text);
    line = line.substr(0, line.find('#'));
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    if (line.empty()) continue;
    const std::size_t end = std::min(line.find_first_of(kBlanks), line.size());
    const auto key = parse_public_key(line.substr(0, end));
    if (!key) {
      return Error(
          ErrorCode::kInvalidConfig,
          fmt::format("line {}: expected the 64 hex digits (0-9, a-f) of a peer's key", number));
    }
    if (list.size() == AllowList::kKeysMax) {
      return Error(ErrorCode::kInvalidConfig,
                   fmt::format("line {}: more than {} keys", number, AllowList::kKeysMax));
    }
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks, end), line.size()));
    list.add(*key, line.substr(0, line.find_last_not_of(kBlanks) + 1));
  }
  return list;
}

SwarmSecret::SwarmSecret(std::span<const std::byte> secret) {
  STARLING_ASSERT(secret.size() >= kBytesMin);
  STARLING_ASSERT(::sodium_init() >= 0);
  // However long the secret is, the key of the proofs is one of fixed size.
  ::crypto_generichash(key_.data(), key_.size(),
                       reinterpret_cast<const unsigned char*>(secret.data()), secret.size(),
                       nullptr, 0);
}

SwarmSecret::~SwarmSecret() { ::sodium_memzero(key_.data(), key_.size()); }

SecretProof SwarmSecret::prove(const Greeting& greeting) const {
  SecretProof proof;
  crypto_generichash_state state;
  ::crypto_generichash_init(&state, key_.data(), key_.size(), proof.bytes.size());
  add_to(state, kTag.data(), kTag.size());
  add_to(state, greeting.sender.bytes.data(), greeting.sender.bytes.size());
  add_to(state, greeting.receiver.bytes.data(), greeting.receiver.bytes.size());
  add_to(state, &greeting.run, sizeof greeting.run);  // little-endian, as on the wire
  ::crypto_generichash_final(&state, proof.bytes.data(), proof.bytes.size());
  return proof;
}

bool SwarmSecret::holds(const SecretProof& proof, const Greeting& greeting) const {
  const SecretProof expected = prove(greeting);
  return ::sodium_memcmp(proof.bytes.data(), expected.bytes.data(), expected.bytes.size()) == 0;
}

}  // namespace starling::gossip
