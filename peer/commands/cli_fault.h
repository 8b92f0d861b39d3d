// What is said of a command line that makes no sense: the command that was read, the word that it
// does not know, the one that was probably meant, and how to learn more; and the last net below the
// commands. Pure functions.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace CLI {
class App;
class Error;
}  // namespace CLI

namespace starling::peer {

// `app`, all of it, has just refused what it was given with `error`.
std::string command_line_fault(const CLI::App* app, const CLI::Error& error);

// What `command` returns, or what it has thrown as an error: of a library, or for want of memory.
Status without_exceptions(const std::function<Status()>& command);

}  // namespace starling::peer
