// Completion of a command line in a shell, as a script for the shell to read: commands, options,
// the words an option takes, files, and configuration keys after --set. Made of the table behind
// `--help`, so a new command is completed at once. Pure functions.
#pragma once

#include <span>
#include <string>

#include "peer/commands/command_text.h"

namespace starling::peer {

// `keys`: "section.key" of the configuration.
std::string bash_completion(const CommandText& program, std::span<const std::string> keys);
std::string zsh_completion(const CommandText& program, std::span<const std::string> keys);

}  // namespace starling::peer
