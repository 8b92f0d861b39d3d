#include "peer/commands/cli_fault.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <new>
#include <vector>

#include "peer/config/config_keys.h"
#include "peer/io/human_text.h"

namespace starling::peer {

namespace {

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string about_unknown(const CLI::App& command, const std::vector<std::string>& words) {
  const auto option = std::find_if(words.begin(), words.end(),
                                   [](const std::string& word) { return word.starts_with("-"); });
  const bool is_option = option != words.end();
  const auto known = is_option ? options_of(command) : commands_of(command);
  std::string word = is_option ? *option : words.front();
  if (known.empty()) return "one argument too many: " + word;
  word = word.substr(0, word.find('='));
  const std::string near = nearest_word(word, known);
  return fmt::format("there is no {} {}{}", is_option ? "option" : "command", word,
                     near.empty() ? "" : "; did you mean " + near + "?");
}

}  // namespace

std::string command_line_fault(const CLI::App* app, const CLI::Error& error) {
  std::string name = app->get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    name += " " + app->get_name();
  }
  std::string fault = error.what();
  const auto commands = commands_of(*app);
  if (const auto words = app->remaining(); !words.empty()) {
    fault = about_unknown(*app, words);
  } else if (!commands.empty()) {
    fault = fmt::format("name one of its commands: {}", fmt::join(commands, ", "));
  }
  return fmt::format("{}: {}\n'{} --help' tells more.\n", name, printable(fault), name);
}

Status without_exceptions(const std::function<Status()>& command) {
  try {
    return command();
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::kExhausted,
                 "out of memory; take a smaller [model] or batch, or end what else runs here");
  } catch (const std::exception& thrown) {
    return Error(ErrorCode::kIo, thrown.what());
  }
}

}  // namespace starling::peer
