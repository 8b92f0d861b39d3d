// Feeds CheckpointFile and the decoders of the small sections with hostile bytes. The first byte
// says what they are meant to be. Header, sections and footer are sealed with correct digests in
// one of the cases: without that the fuzzer would never get past them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/assert.h"
#include "base/hash.h"
#include "peer/files/checkpoint.h"
#include "peer/files/checkpoint_codec.h"
#include "tests/support/memory_source.h"

namespace {

using namespace starling;
using namespace starling::peer;

void put(std::span<std::byte> file, std::size_t offset, std::uint64_t value) {
  std::memcpy(file.data() + offset, &value, sizeof(value));
}

// Makes magics, total length and the digests of header and footer right; sections stay as they are.
void seal(std::span<std::byte> file) {
  std::memcpy(file.data(), "STRLCKP1", 8);
  std::memcpy(file.data() + 8, &kCheckpointVersion, sizeof(kCheckpointVersion));
  put(file, 16, file.size());
  put(file, kCheckpointHeaderBytes - 8, digest(file.first(kCheckpointHeaderBytes - 8)));
  const auto footer = file.last(kCheckpointFooterBytes);
  std::memcpy(footer.data() + footer.size() - 32, file.data() + kCheckpointHeaderBytes - 8, 8);
  put(footer, footer.size() - 24, file.size());
  put(footer, footer.size() - 16, digest(footer.first(footer.size() - 16)));
  std::memcpy(footer.data() + footer.size() - 8, "STRLEND1", 8);
}

// Whatever was verified must be readable.
void open(std::span<const std::byte> bytes) {
  auto file = CheckpointFile::open(memory_source(bytes));
  if (!file.ok()) return;
  for (const std::string_view name :
       {"weights", "progress", "data", "ledger", "unsettled", "config"}) {
    const auto size = file.value().section_bytes(name);
    if (!size.has_value()) continue;
    STARLING_ASSERT(*size <= bytes.size());
    STARLING_ASSERT(file.value().read(name, bytes.size()).ok());
  }
}

// What a decoder accepts must encode to the very same bytes.
template <class Decode>
void check_canonical(std::span<const std::byte> bytes, Decode decode) {
  auto decoded = decode(bytes);
  if (!decoded.ok()) return;
  const auto again = encode(decoded.value());
  STARLING_ASSERT(std::equal(bytes.begin(), bytes.end(), again.begin(), again.end()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto* first = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(first + 1, first + size);
  switch (data[0] % 8) {
    case 0: open(bytes); break;
    case 1:
      bytes.resize(std::max(bytes.size(), kCheckpointHeaderBytes + kCheckpointFooterBytes));
      seal(bytes);
      open(bytes);
      break;
    case 2: check_canonical(bytes, decode_progress); break;
    case 3: check_canonical(bytes, decode_ledger); break;
    case 4: check_canonical(bytes, decode_unsettled); break;
    case 5: check_canonical(bytes, decode_data); break;
    case 6: check_canonical(bytes, decode_age); break;
    default: check_canonical(bytes, decode_tokens); break;
  }
  return 0;
}
