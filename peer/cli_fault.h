// What is said of a command line that makes no sense: the command that was read, the word that it
// does not know, the one that was probably meant, and how to learn more. A pure function.
#pragma once

#include <string>

namespace CLI {
class App;
class Error;
}  // namespace CLI

namespace starling::peer {

// `app`, all of it, has just refused what it was given with `error`.
std::string command_line_fault(const CLI::App* app, const CLI::Error& error);

}  // namespace starling::peer
