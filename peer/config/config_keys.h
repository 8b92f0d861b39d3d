// The names of all configuration keys, and the one a mistyped key probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace starling::peer {

std::vector<std::string> section_names();
std::vector<std::string> config_keys();  // "section.key", in the order of the description

// The known key (or section, if `key` has no dot) nearest to `key`: the fewest letters to insert,
// drop or replace; a key of the right name in another section is near, too. Empty if none is.
std::string nearest_key(std::string_view key);

// The keys of the section that `key` names, without the section.
std::vector<std::string> keys_beside(std::string_view key);

// The one of `known` that a mistyped word probably meant, by letters. Empty if none is near.
std::string nearest_word(std::string_view word, std::span<const std::string> known);

}  // namespace starling::peer
