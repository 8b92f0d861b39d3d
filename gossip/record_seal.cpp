#include "gossip/record_seal.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/rng.h"

namespace starling::gossip {
namespace {

constexpr std::string_view kFormat = "starling peer record 1";

void append(std::vector<std::byte>& text, const void* source, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(source);
  text.insert(text.end(), first, first + bytes);
}

template <class Number>
void append_number(std::vector<std::byte>& text, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i) {
    text.push_back(static_cast<std::byte>(number >> (8 * i) & 0xff));
  }
}

}  // namespace

std::vector<std::byte> sealed_text(std::uint64_t run, const PeerRecord& record) {
  std::vector<std::byte> text;
  text.reserve(192);
  append(text, kFormat.data(), kFormat.size());
  append_number(text, run);
  append_number(text, record.key.incarnation);
  append(text, record.address.key.bytes.data(), record.address.key.bytes.size());
  append_number(text, std::uint32_t{record.address.control_port});
  append_number(text, std::uint32_t{record.address.bulk_port});
  const std::string_view name = host(record.address);
  append_number(text, static_cast<std::uint32_t>(name.size()));
  append(text, name.data(), name.size());
  text.push_back(record.dialable ? std::byte{1} : std::byte{0});
  text.push_back(record.forwards ? std::byte{1} : std::byte{0});
  append_number(text, static_cast<std::uint32_t>(record.relays.size()));
  for (const PeerId relay : record.relays) append_number(text, relay.value);
  text.push_back(record.health == Health::kLeft ? std::byte{1} : std::byte{0});
  append_number(text, static_cast<std::uint32_t>(record.extension.size()));
  append(text, record.extension.begin(), record.extension.size());
  return text;
}

Signature StandInSeal::sign_as(PeerId id, std::span<const std::byte> text) {
  std::uint64_t state = mix64(id.value + text.size());
  for (std::size_t at = 0; at < text.size(); at += sizeof state) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
    state = mix64(state ^ word);
  }
  Signature signature{};
  std::memcpy(signature.data(), &state, sizeof state);
  return signature;
}

}  // namespace starling::gossip
