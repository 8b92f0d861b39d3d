// The part of the command line that is `starling bench`, and what it shares with the rest of it
// (cli.cpp). Only these two files include CLI11, which takes seconds to translate.
#pragma once

#include <string>

#include "peer/cli_commands.h"

namespace CLI {
class App;
}

namespace starling::peer {

// A subcommand of `app` that chooses `run`.
CLI::App* add_command(CLI::App& app, Arguments& arguments, const std::string& name,
                      const std::string& purpose, Status (*run)(const Arguments&));

void add_bench(CLI::App& app, Arguments& arguments);

}  // namespace starling::peer
