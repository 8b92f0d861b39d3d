// What the tokenizers know of Unicode: characters in UTF-8, the classes that their patterns speak
// of, and normal form C. Bytes that are no UTF-8 are characters of their own and stay as they are.
// Any thread.
//
// Classes are those of Unicode 16, as in the reference tokenizers (0.23). Its normal form C is that
// of Unicode 9, ours of Unicode 15: they differ for U+11938 and the order of 98 rare marks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace starling::model {

inline constexpr char32_t kNoCharacter = 0xffffffff;  // a byte that is no UTF-8

struct Character {
  char32_t code = kNoCharacter;
  std::size_t bytes = 1;
};

// The character at `at`, which must be inside the text.
Character character_at(std::string_view text, std::size_t at);
void append_character(char32_t code, std::string& text);
// Where the character begins that the byte at `at` is of: `at` itself at the end of the text, and
// where it is no UTF-8.
std::size_t character_start(std::string_view text, std::size_t at);
// The first byte at or after `from` that is no UTF-8; text.size() if there is none.
std::size_t find_invalid(std::string_view text, std::size_t from = 0);

enum class CharacterClass : std::uint8_t {
  kLetter,  // \p{L}
  kNumber,  // \p{N}
  kSpace,   // \s, property White_Space
  kOther,
};

CharacterClass class_of(char32_t code);

// Normal form C, in time and memory linear in the text whatever it holds. Keeps its scratch memory:
// one thread.
class NormalFormC {
 public:
  // `text` itself where it is in normal form without a closer look; else valid until the next call.
  std::string_view normalize(std::string_view text);

 private:
  void normalize_run(std::string_view run);
  std::string normal_;
  std::vector<std::int32_t> codes_;
};

}  // namespace starling::model
