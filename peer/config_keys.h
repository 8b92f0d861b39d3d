// The names of all configuration keys, and the one a mistyped key probably meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace starling::peer {

std::vector<std::string> section_names();
std::vector<std::string> config_keys();  // "section.key", in the order of the description

// The known key (or section, if `key` has no dot) nearest to `key`: the fewest letters to insert,
// drop or replace; a key of the right name in another section is near, too. Empty if none is.
std::string nearest_key(std::string_view key);

}  // namespace starling::peer
