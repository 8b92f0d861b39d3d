#include "gossip/net/envelope.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"

namespace starling::gossip {
namespace {

constexpr std::uint32_t kMagic = 0x52525453;  // "STRR"
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kLaneAt = 5;
constexpr std::size_t kZeroAt = 6;
constexpr std::size_t kToAt = 8;
constexpr std::size_t kFromAt = 16;
constexpr std::size_t kFromProcessAt = 48;
constexpr std::size_t kToProcessAt = 56;
constexpr std::size_t kCounterAt = 64;
constexpr std::size_t kNonceAt = 72;
constexpr std::uint8_t kControl = 1;
constexpr std::uint8_t kBulk = 2;
constexpr std::string_view kTag = "starling envelope 1";

static_assert(kEnvelopeHeadBytes - kNonceAt == crypto_aead_xchacha20poly1305_ietf_NPUBBYTES);
static_assert(kEnvelopeBytes - kEnvelopeHeadBytes == crypto_aead_xchacha20poly1305_ietf_ABYTES);
static_assert(crypto_aead_xchacha20poly1305_ietf_KEYBYTES == 32);

template <class T>
void put(std::span<std::byte> envelope, std::size_t at, const T& value) {
  std::memcpy(envelope.subspan(at, sizeof value).data(), &value, sizeof value);
}

template <class T>
T get(std::span<const std::byte> envelope, std::size_t at) {
  T value;
  std::memcpy(&value, envelope.subspan(at, sizeof value).data(), sizeof value);
  return value;
}

const unsigned char* bytes_at(std::span<const std::byte> envelope, std::size_t at) {
  return reinterpret_cast<const unsigned char*>(envelope.subspan(at).data());
}

unsigned char* bytes_at(std::span<std::byte> envelope, std::size_t at) {
  return reinterpret_cast<unsigned char*>(envelope.subspan(at).data());
}

}  // namespace

std::string_view to_string(EnvelopeFault fault) {
  switch (fault) {
    case EnvelopeFault::kNone: return "none";
    case EnvelopeFault::kMalformed: return "malformed";
    case EnvelopeFault::kMisdirected: return "for another peer";
    case EnvelopeFault::kOtherProcess: return "for another life of this peer";
    case EnvelopeFault::kForged: return "not what its sender sealed";
    case EnvelopeFault::kReplayed: return "a copy";
    case EnvelopeFault::kUnread: return "one too many of strangers in a short time";
  }
  return "unknown fault";
}

bool is_envelope(std::span<const std::byte> frame) {
  return frame.size() >= sizeof kMagic && get<std::uint32_t>(frame, 0) == kMagic;
}

std::optional<EnvelopeHead> read_head(std::span<const std::byte> envelope) {
  if (envelope.size() <= kEnvelopeBytes || !is_envelope(envelope)) return std::nullopt;
  const auto lane = get<std::uint8_t>(envelope, kLaneAt);
  if (get<std::uint8_t>(envelope, kVersionAt) != kVersion) return std::nullopt;
  if (get<std::uint16_t>(envelope, kZeroAt) != 0) return std::nullopt;
  if (lane != kControl && lane != kBulk) return std::nullopt;
  EnvelopeHead head{.bulk = lane == kBulk,
                    .to = PeerId{get<std::uint64_t>(envelope, kToAt)},
                    .from = get<PublicKey>(envelope, kFromAt),
                    .from_process = get<std::uint64_t>(envelope, kFromProcessAt),
                    .to_process = get<std::uint64_t>(envelope, kToProcessAt),
                    .counter = get<std::uint64_t>(envelope, kCounterAt)};
  if (!names_a_peer(head.from) || head.to == PeerId{} || head.to == id_of(head.from)) {
    return std::nullopt;
  }
  return head;
}

Sealer::Key::~Key() { ::sodium_memzero(bytes.data(), bytes.size()); }

Sealer::Sealer(const Identity& identity, std::uint64_t process, IsPartner is_partner)
    : self_(identity.key()),
      secret_{identity.curve_secret()},
      process_(process),
      is_partner_(std::move(is_partner)) {}

// Nothing: no peer can have that key.
std::optional<Sealer::Key> Sealer::key_with(const PublicKey& other) const {
  const auto curve = curve_key_of(other);
  Key shared;
  if (!curve ||
      ::crypto_scalarmult(shared.bytes.data(), secret_.bytes.data(), curve->data()) != 0) {
    return std::nullopt;
  }
  Key key;
  crypto_generichash_state state;
  ::crypto_generichash_init(&state, shared.bytes.data(), shared.bytes.size(), key.bytes.size());
  ::crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(kTag.data()),
                              kTag.size());
  // In one order at both ends.
  for (const PublicKey& end : {std::min(self_, other), std::max(self_, other)}) {
    ::crypto_generichash_update(&state, end.bytes.data(), end.bytes.size());
  }
  ::crypto_generichash_final(&state, key.bytes.data(), key.bytes.size());
  ::sodium_memzero(&state, sizeof state);
  return key;
}

void Sealer::forget_one() {
  const auto worth = [this](const auto& row) {
    return std::pair(is_partner_(row.first), row.second.used);
  };
  auto least = ends_.begin();
  for (auto row = ends_.begin(); row != ends_.end(); ++row) {
    if (worth(*row) < worth(*least)) least = row;
  }
  ends_.erase(least);
}

// The row of an end that has proved itself, or that we want to speak to.
Sealer::End& Sealer::end_of(const PublicKey& other, const Key& key) {
  const auto found = ends_.find(other);
  if (found != ends_.end()) return found->second;
  if (ends_.size() >= kEndsMax) forget_one();
  End& end = ends_[other];
  end.key = key;
  end.sent = last_sent_;
  return end;
}

bool Sealer::seal(const Receiver& to, bool bulk, std::span<const std::byte> frame,
                  std::span<std::byte> envelope) {
  STARLING_ASSERT(envelope.size() == frame.size() + kEnvelopeBytes);
  const auto known = ends_.find(to.key);
  std::optional<Key> key;
  if (known == ends_.end() && !(key = key_with(to.key))) return false;
  End& end = known == ends_.end() ? end_of(to.key, *key) : known->second;
  end.used = ++uses_;
  last_sent_ = std::max(last_sent_, ++end.sent);

  put(envelope, 0, kMagic);
  put(envelope, kVersionAt, kVersion);
  put(envelope, kLaneAt, bulk ? kBulk : kControl);
  put(envelope, kZeroAt, std::uint16_t{0});
  put(envelope, kToAt, id_of(to.key).value);
  put(envelope, kFromAt, self_);
  put(envelope, kFromProcessAt, process_);
  put(envelope, kToProcessAt, to.process);
  put(envelope, kCounterAt, end.sent);
  ::randombytes_buf(bytes_at(envelope, kNonceAt), kEnvelopeHeadBytes - kNonceAt);
  ::crypto_aead_xchacha20poly1305_ietf_encrypt(
      bytes_at(envelope, kEnvelopeHeadBytes), nullptr, bytes_at(frame, 0), frame.size(),
      bytes_at(std::span<const std::byte>(envelope), 0), kEnvelopeHeadBytes, nullptr,
      bytes_at(envelope, kNonceAt), end.key.bytes.data());
  return true;
}

EnvelopeFault Sealer::open(std::span<const std::byte> envelope, const EnvelopeHead& head,
                           std::span<std::byte> frame) {
  STARLING_ASSERT(envelope.size() == frame.size() + kEnvelopeBytes);
  if (head.to != id_of(self_)) return EnvelopeFault::kMisdirected;
  if (head.to_process != process_) return EnvelopeFault::kOtherProcess;
  const auto known = ends_.find(head.from);
  if (known != ends_.end() && was_seen(known->second, head)) return EnvelopeFault::kReplayed;
  std::optional<Key> key;
  if (known == ends_.end() && !(key = key_with(head.from))) return EnvelopeFault::kForged;
  const Key& opener = known == ends_.end() ? *key : known->second.key;
  if (::crypto_aead_xchacha20poly1305_ietf_decrypt(
          bytes_at(frame, 0), nullptr, nullptr, bytes_at(envelope, kEnvelopeHeadBytes),
          envelope.size() - kEnvelopeHeadBytes, bytes_at(envelope, 0), kEnvelopeHeadBytes,
          bytes_at(envelope, kNonceAt), opener.bytes.data()) != 0) {
    return EnvelopeFault::kForged;
  }
  End& end = known == ends_.end() ? end_of(head.from, *key) : known->second;
  end.used = ++uses_;
  note_seen(end, head);
  return EnvelopeFault::kNone;
}

bool Sealer::was_seen(const End& end, const EnvelopeHead& head) {
  if (head.from_process != end.process) return head.from_process < end.process;
  if (head.counter > end.newest) return false;
  const std::uint64_t age = end.newest - head.counter;
  return age >= kWindow || end.seen[static_cast<std::size_t>(age)];
}

void Sealer::note_seen(End& end, const EnvelopeHead& head) {
  if (head.from_process != end.process) {
    end.process = head.from_process;
    end.newest = head.counter;
    end.seen.reset();
  }
  if (head.counter > end.newest) {
    const std::uint64_t ahead = head.counter - end.newest;
    end.seen =
        ahead >= kWindow ? std::bitset<kWindow>() : end.seen << static_cast<std::size_t>(ahead);
    end.newest = head.counter;
  }
  end.seen.set(static_cast<std::size_t>(end.newest - head.counter));
}

}  // namespace starling::gossip
