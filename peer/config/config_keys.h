// The names of all configuration keys, and the one a mistyped key probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace starling::peer {

std::vector<std::string> section_names();
std::vector<std::string> config_keys();  // "section.key", in the order of the description

// The known key (or section, if `key` has no dot) that `key` probably meant, by the letters of its
// last part: first of its section, where that may be a beginning or an end of a key's, or be
// misspelt; then one of the same name, or nearly, in another section. Empty if none is near.
std::string nearest_key(std::string_view key);

// The keys of the section that `key` names, without the section.
std::vector<std::string> keys_beside(std::string_view key);

// The one of `known` that a mistyped word probably meant, by letters. Empty if none is near.
std::string nearest_word(std::string_view word, std::span<const std::string> known);

}  // namespace starling::peer
