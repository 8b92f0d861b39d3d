// The alphabet in which byte-level tokenizers write bytes down: printable characters of Latin-1 are
// themselves, the other bytes are the characters from U+0100 on, in order. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace starling::model {

char32_t alphabet_character(unsigned char byte);

// The bytes that a name in UTF-8 stands for; nothing if it is not written in the alphabet.
std::optional<std::string> bytes_in_alphabet(std::string_view name);

}  // namespace starling::model
