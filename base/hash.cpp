#include "base/hash.h"

#if STARLING_XXHASH_DISPATCH
// The same calls and values, by the widest instructions of this processor.
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include "base/assert.h"

namespace starling {

std::uint64_t digest(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t digest(std::string_view text, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

struct StreamDigest::State {
  State() : raw(XXH3_createState()) {
    STARLING_ASSERT(raw != nullptr);
    XXH3_64bits_reset(raw);
  }
  ~State() { XXH3_freeState(raw); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  XXH3_state_t* raw;
};

StreamDigest::StreamDigest() : state_(std::make_unique<State>()) {}
StreamDigest::~StreamDigest() = default;
StreamDigest::StreamDigest(StreamDigest&&) noexcept = default;
StreamDigest& StreamDigest::operator=(StreamDigest&&) noexcept = default;

void StreamDigest::update(std::span<const std::byte> bytes) noexcept {
  XXH3_64bits_update(state_->raw, bytes.data(), bytes.size());
}

std::uint64_t StreamDigest::value() const noexcept { return XXH3_64bits_digest(state_->raw); }

}  // namespace starling
