#include "model/tokenizers/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "model/tokenizers/unicode.h"

namespace starling::model {

namespace {

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<std::int16_t, 324> byte{};  // of a character; -1: of none
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (std::int16_t& byte : alphabet.byte) byte = -1;
  char32_t next = 256;
  for (std::size_t i = 0; i < alphabet.character.size(); ++i) {
    const bool printable = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
    alphabet.character[i] = printable ? static_cast<char32_t>(i) : next++;
    alphabet.byte[alphabet.character[i]] = static_cast<std::int16_t>(i);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t alphabet_character(unsigned char byte) { return kAlphabet.character[byte]; }

std::optional<std::string> bytes_in_alphabet(std::string_view name) {
  std::string bytes;
  for (std::size_t at = 0; at < name.size();) {
    const Character next = character_at(name, at);
    if (next.code >= kAlphabet.byte.size() || kAlphabet.byte[next.code] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[next.code]));
    at += next.bytes;
  }
  return bytes;
}

}  // namespace starling::model
