#include "model/tokenizers/character_map.h"

#include <algorithm>
#include <utility>

namespace starling::model {

namespace {

constexpr std::size_t kUnitBytes = 4;

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < kUnitBytes; ++i) {
    value |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return value;
}

// A unit of the double array is either a place in the tree or the value of a key.
constexpr std::uint32_t kIsValue = 0x80000000;
constexpr std::uint32_t kHasValue = 0x100;  // its value stands where its children begin
std::uint32_t label_of(std::uint32_t unit) { return unit & (kIsValue | 0xffU); }
std::size_t children_of(std::uint32_t unit) {
  return std::size_t{unit >> 10U} << ((unit & 0x200U) != 0 ? 8U : 0U);
}

}  // namespace

// The size of the double array, the array, and the replacements, each ended by a zero.
Result<CharacterMap> CharacterMap::read(std::string file) {
  CharacterMap map;
  if (file.empty()) return map;
  const Error broken(ErrorCode::kInvalidConfig, "tokenizer.model: its normalization is broken");
  if (file.size() < kUnitBytes || file.back() != '\0') return broken;
  const std::size_t bytes = little_endian(file);
  if (bytes % kUnitBytes != 0 || bytes < kUnitBytes || bytes > file.size() - kUnitBytes) {
    return broken;
  }
  map.file_ = std::move(file);
  map.units_ = bytes / kUnitBytes;
  return map;
}

std::uint32_t CharacterMap::unit(std::size_t at) const {
  return little_endian(std::string_view(file_).substr(kUnitBytes * (1 + at), kUnitBytes));
}

CharacterMap::Match CharacterMap::find(std::string_view text) const {
  Match longest;
  if (units_ == 0) return longest;
  const std::string_view replacements = std::string_view(file_).substr(kUnitBytes * (1 + units_));
  std::size_t at = children_of(unit(0));
  for (std::size_t i = 0; i < std::min(text.size(), kKeyBytesMax); ++i) {
    const std::uint32_t byte = static_cast<unsigned char>(text[i]);
    at ^= byte;
    if (at >= units_) break;
    const std::uint32_t here = unit(at);
    if (label_of(here) != byte) break;
    at ^= children_of(here);
    if ((here & kHasValue) == 0) continue;
    if (at >= units_) break;
    const std::size_t value = unit(at) & ~kIsValue;
    if (value >= replacements.size()) break;
    const std::string_view from = replacements.substr(value, kReplacementBytesMax + 1);
    const std::size_t end = from.find('\0');
    if (end != std::string_view::npos) longest = {i + 1, from.substr(0, end)};
  }
  return longest;
}

}  // namespace starling::model
