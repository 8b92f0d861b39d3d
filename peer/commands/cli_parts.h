// Parts of the command line beside cli.cpp: `starling bench` (cli_bench.cpp) and the commands on
// models (cli_models.cpp), with what they share. Only these files include CLI11, which takes
// seconds to translate.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "peer/commands/cli_commands.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace starling::peer {

// A subcommand of `app` that chooses `run`.
CLI::App* add_command(CLI::App& app, Arguments& arguments, const std::string& name,
                      const std::string& purpose, Status (*run)(const Arguments&));

// --set SECTION.KEY=VALUE, which overrides `what`.
void add_overrides(CLI::App& command, Arguments& arguments, const std::string& what);

// Also of integers, whose sign the library takes for a large number, and of NaN, which is in all of
// its ranges; those ranges name the largest number there is.
CLI::Validator not_negative();

// Of whole numbers, what fits as well; the library tells only that it could not convert the rest,
// or takes it for the largest number there is.
CLI::Validator whole_number(std::uint64_t most);
template <class Number>
constexpr std::uint64_t most_of(const Number&) {
  return static_cast<std::uint64_t>(std::numeric_limits<Number>::max());
}

void add_bench(CLI::App& app, Arguments& arguments);
void add_model_commands(CLI::App& app, Arguments& arguments);

}  // namespace starling::peer
