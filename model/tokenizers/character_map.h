// CharacterMap: the normalization of a SentencePiece model, compiled into it as a table of what is
// replaced by what. The table is read as it lies in the file, a double array, and may be hostile:
// no step leaves it, and keys and replacements have a greatest length. Constant; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace starling::model {

class CharacterMap {
 public:
  static constexpr std::size_t kKeyBytesMax = 64;
  static constexpr std::size_t kReplacementBytesMax = 512;

  // Of no bytes: a map that replaces nothing.
  static Result<CharacterMap> read(std::string file);

  struct Match {
    std::size_t bytes = 0;  // of the text that is replaced; 0: none
    std::string_view replacement{};
  };
  // The longest key at the beginning of `text`.
  Match find(std::string_view text) const;

  bool empty() const noexcept { return units_ == 0; }

 private:
  std::uint32_t unit(std::size_t at) const;

  std::string file_;
  std::size_t units_ = 0;
};

}  // namespace starling::model
