// CommandText: what the command line of a program takes, as plain values: the one table that
// `--help`, the manual page and the shells' completion come from. cli.cpp makes it of its parser,
// which nobody else knows. Values; no threads, no errors.
#pragma once

#include <string>
#include <vector>

namespace starling::peer {

struct OptionText {
  std::vector<std::string> names{};    // "-h", "--help"; of a positional one word without dashes
  std::string value{};                 // what stands for its value, like "FILE"; empty: a flag
  std::vector<std::string> choices{};  // of that value; empty: anything
  std::string preset{};                // the value without this option; empty: none to tell
  std::string purpose{};
  bool positional = false, required = false, repeated = false;
};

struct CommandText {
  std::string name{}, purpose{};
  std::vector<OptionText> options{};  // positionals in their order
  std::vector<CommandText> commands{};
};

}  // namespace starling::peer
