#include "base/bytes.h"

#include <vector>

namespace starling {

Bytes Bytes::copy_of(std::span<const std::byte> source) {
  auto* owned = new std::vector<std::byte>(source.begin(), source.end());
  return Bytes(*owned, owned,
               [](void* owner) noexcept { delete static_cast<std::vector<std::byte>*>(owner); });
}

}  // namespace starling
