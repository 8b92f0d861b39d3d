// A checkpoint that is in memory, as a source of its bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "peer/files/checkpoint.h"

namespace starling::peer {

// `bytes` must outlive the source.
inline SectionSource memory_source(std::span<const std::byte> bytes) {
  return {bytes.size(), [bytes](std::uint64_t offset, std::span<std::byte> target) -> Status {
            STARLING_ASSERT(offset <= bytes.size());
            STARLING_ASSERT(target.size() <= bytes.size() - offset);
            const auto source = bytes.subspan(offset, target.size());
            std::copy(source.begin(), source.end(), target.begin());
            return ok_status();
          }};
}

}  // namespace starling::peer
