// Fuzz target: the codec of an exchange against a hostile partner. Any bytes must give an error or
// a finite difference that both sides hold alike; never a crash.
//
// Input: one byte of choices, one for the size of the stripe, eight for the key, then the payload,
// which is offered as it is and, cut or padded to the right length, behind a valid header.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/assert.h"
#include "optim/fragment_codec.h"

namespace starling::optim {

namespace {

constexpr std::size_t kPrefixBytes = 10;

bool all_finite(const std::vector<float>& values) {
  for (const float value : values) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

void respond(std::uint64_t key, std::span<const std::byte> push, const std::vector<float>& slow,
             float clip_radius) {
  auto format = push_format(push, slow.size());
  if (!format.ok()) return;
  std::vector<std::byte> delta(delta_bytes(format.value(), slow.size()));
  auto made = make_delta(key, push, slow, clip_radius, delta);
  if (!made.ok()) return;
  std::vector<float> difference(slow.size());
  auto decoded = decode_delta(delta, difference);
  STARLING_ASSERT(decoded.ok());
  STARLING_ASSERT(all_finite(difference));
  STARLING_ASSERT(made.value().clip_factor == decoded.value().clip_factor);
  STARLING_ASSERT(made.value().blocks_skipped == decoded.value().blocks_skipped);
}

void decode(std::span<const std::byte> delta, std::size_t parameters) {
  std::vector<float> difference(parameters);
  std::vector<BlockReport> blocks(block_count(parameters));
  const bool formed = delta_format(delta, parameters).ok();
  if (!decode_delta(delta, difference, blocks).ok()) return;
  STARLING_ASSERT(formed);
  STARLING_ASSERT(all_finite(difference));
}

// `payload` behind a header that passes, at exactly the length that passes.
std::vector<std::byte> dressed(std::span<const std::byte> payload, WireFormat format,
                               std::size_t parameters, std::size_t bytes) {
  const std::vector<float> zeros(parameters, 0.0f);
  const std::vector<std::int8_t> exponents(block_count(parameters), 0);
  std::vector<std::byte> push(push_bytes(format, parameters));
  STARLING_ASSERT(encode_push(format, 0, zeros, exponents, push).ok());
  std::vector<std::byte> result(kPayloadHeaderBytes + payload.size());
  std::copy_n(push.begin(), kPayloadHeaderBytes, result.begin());
  std::copy(payload.begin(), payload.end(), result.begin() + kPayloadHeaderBytes);
  result.resize(bytes);
  return result;
}

void try_all(std::span<const std::byte> input) {
  const auto choice = std::to_integer<unsigned>(input[0]);
  const std::size_t parameters = 1 + 8 * std::to_integer<std::size_t>(input[1]);
  std::uint64_t key = 0;
  std::memcpy(&key, input.data() + 2, sizeof(key));
  const std::span<const std::byte> payload = input.subspan(kPrefixBytes);
  const float clip_radius = (choice & 4U) != 0 ? 0.01f : 0.0f;
  std::vector<float> slow(parameters);
  for (std::size_t i = 0; i < parameters; ++i) {
    slow[i] = 0.01f * static_cast<float>(static_cast<int>((key >> (i % 50)) & 255U) - 128);
  }
  respond(key, payload, slow, clip_radius);
  decode(payload, parameters);
  const auto format = (choice & 128U) == 0 ? static_cast<WireFormat>(choice & 3U)
                      : (choice & 1U) == 0 ? WireFormat::kMod6
                                           : WireFormat::kMod5;
  respond(key, dressed(payload, format, parameters, push_bytes(format, parameters)), slow,
          clip_radius);
  decode(dressed(payload, format, parameters, delta_bytes(format, parameters)), parameters);
}

}  // namespace

}  // namespace starling::optim

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < starling::optim::kPrefixBytes) return 0;
  starling::optim::try_all({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
