// The byte tokenizer: one token per byte, no tables, no files. Any text survives encode and decode
// unchanged. A plain value, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace starling::model {

class ByteTokenizer {
 public:
  static constexpr std::int64_t kVocabulary = 256;

  std::vector<std::int32_t> encode(std::string_view text) const;
  // Every token is in [0, 256): the caller's model has no larger vocabulary.
  std::string decode(std::span<const std::int32_t> tokens) const;
};

}  // namespace starling::model
