// Feeds decode() with hostile frames. The first byte says whether the checksums are made right:
// without that the fuzzer would never get past them. Whatever is accepted must encode to the very
// same bytes again, or, with a reason that only a later version knows, to as many. All versions
// that this peer speaks are understood.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "gossip/wire/wire.h"

namespace {

using namespace starling::gossip;

std::vector<std::byte> encode_again(const Frame& decoded) {
  if (!is_bulk(decoded.message)) return encode(decoded.from, decoded.message, decoded.version);
  std::vector<std::byte> again(kBulkHeadBytes);
  again.insert(again.end(), decoded.payload.begin(), decoded.payload.end());
  encode_bulk_head(decoded.from, decoded.message, again, decoded.version);
  return again;
}

bool tells_reason(const Message& message) {
  return std::holds_alternative<Refuse>(message) || std::holds_alternative<Decline>(message) ||
         std::holds_alternative<StateDeclined>(message) ||
         std::holds_alternative<Abandoned>(message) || std::holds_alternative<Abort>(message);
}

void check_canonical(std::span<const std::byte> frame, const Frame& decoded) {
  const auto again = encode_again(decoded);
  if (std::equal(frame.begin(), frame.end(), again.begin(), again.end())) return;
  STARLING_ASSERT(tells_reason(decoded.message));
  STARLING_ASSERT(again.size() == frame.size());
  auto twice = decode(again);
  STARLING_ASSERT(twice.ok());
  STARLING_ASSERT(encode_again(twice.value()) == again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto* first = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> frame(first + 1, first + size);
  if (data[0] % 2 == 1 && frame.size() >= kHeaderBytes) seal(frame);
  auto decoded = decode(frame);
  if (decoded.ok()) check_canonical(frame, decoded.value());
  return 0;
}
