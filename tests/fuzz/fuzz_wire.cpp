// Feeds decode() with hostile frames. The first byte says whether the checksums are made right:
// without that the fuzzer would never get past them. Whatever is accepted must encode to the very
// same bytes again. All versions that this peer speaks are understood.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "gossip/wire.h"

namespace {

using namespace starling::gossip;

void check_canonical(std::span<const std::byte> frame, const Frame& decoded) {
  std::vector<std::byte> again;
  if (is_bulk(decoded.message)) {
    again.resize(kBulkHeadBytes);
    again.insert(again.end(), decoded.payload.begin(), decoded.payload.end());
    encode_bulk_head(decoded.from, decoded.message, again, decoded.version);
  } else {
    again = encode(decoded.from, decoded.message, decoded.version);
  }
  STARLING_ASSERT(std::equal(frame.begin(), frame.end(), again.begin(), again.end()));
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
