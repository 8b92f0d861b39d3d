// Feeds TokenShardView with hostile files. The first byte says whether the digests are made right:
// without that the fuzzer would never get past them. What is accepted must be readable throughout.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/assert.h"
#include "base/hash.h"
#include "peer/files/token_shard.h"

namespace {

using namespace starling;
using namespace starling::peer;

void put(std::span<std::byte> file, std::size_t offset, std::uint64_t value) {
  std::memcpy(file.data() + offset, &value, sizeof(value));
}

void seal(std::span<std::byte> file) {
  std::memcpy(file.data(), "STRLTOK1\1\0\0\0", 12);
  put(file, 24, digest(file.subspan(kShardHeaderBytes)));
  put(file, kShardHeaderBytes - 8, digest(file.first(kShardHeaderBytes - 8)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto* first = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> file(first + 1, first + size);
  if (data[0] % 2 == 1 && file.size() >= kShardHeaderBytes) seal(file);
  auto view = TokenShardView::open(file);
  if (!view.ok() || !view.value().verify().ok()) return 0;
  std::vector<std::int32_t> tokens(view.value().tokens());
  view.value().copy(0, tokens);
  for (const std::int32_t token : tokens) {
    STARLING_ASSERT(token >= 0);
    STARLING_ASSERT(static_cast<std::uint32_t>(token) < view.value().header().vocabulary);
  }
  return 0;
}
