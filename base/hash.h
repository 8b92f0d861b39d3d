// Digests for integrity, not for secrets: XXH3 of libxxhash. The same bytes give the same value on
// every machine. A digest of several parts is the digest of their digests, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace starling {

std::uint64_t digest(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept;
std::uint64_t digest(std::string_view text, std::uint64_t seed = 0) noexcept;

// The digest of bytes that come in pieces; equal to digest() of the whole with seed 0.
class StreamDigest {
 public:
  StreamDigest();
  ~StreamDigest();
  StreamDigest(StreamDigest&&) noexcept;
  StreamDigest& operator=(StreamDigest&&) noexcept;
  void update(std::span<const std::byte> bytes) noexcept;
  std::uint64_t value() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace starling
