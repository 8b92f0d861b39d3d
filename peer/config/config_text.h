// How values of a configuration are written, and in which of them two configurations differ.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace starling::peer {

struct PeerConfig;

// The keys whose values differ, in the order of the description, with both values as TOML.
struct KeyDifference {
  std::string key, first, second;
};
std::vector<KeyDifference> differing_keys(const PeerConfig& first, const PeerConfig& second);

std::string in_quotes(std::string_view text);  // a string of TOML, whatever is in it

}  // namespace starling::peer
