#include "peer/commands/manual_page.h"

#include <fmt/format.h>

#include <cctype>

namespace starling::peer {

namespace {

// What `--help` does not say. {} is the program's name.
constexpr std::string_view kMore = R"(.SH CONFIGURATION
A configuration is a TOML file. Every key has a default;
.B {0} config
prints all of them with their meaning and range.
.B \-\-set
takes precedence over the file. Relative paths are relative to the working directory.
.SH SIGNALS
On SIGINT or SIGTERM
.B {0} peer
leaves the swarm, writes a last checkpoint and ends with status 0; a second signal ends it at once.
.SH FILES
.TP
.I run.folder/run.name/run.peer_name/
All that a peer writes:
.IR lock ", " peer.json ", " key " (its secret key, unless trust.key names another), " config.toml ,
.IR metrics.jsonl ", " events.jsonl ", " tensorboard/ ,
.IR traffic " (bytes per hour, where bandwidth.gigabytes_per_day is set), " checkpoints/ " and"
.IR join/ " (what a newcomer has fetched so far).
Of the peers of
.B {0} swarm
also
.IR log.txt .
.SH EXIT STATUS
.TP
0
Done.
.TP
1
The command failed; one line on standard error says why.
.TP
2
The command line made no sense.
)";

char upper(char letter) { return static_cast<char>(std::toupper(letter)); }
char lower(char letter) { return static_cast<char>(std::tolower(letter)); }

// Text as it is: no letter of it is a request to the formatter.
std::string escaped(std::string_view text, bool literal = false) {
  std::string result;
  if (text.starts_with('.') || text.starts_with('\'')) result += "\\&";
  for (const char letter : text) {
    if (letter == '\\') {
      result += "\\e";
    } else if (letter == '-' && literal) {
      result += "\\-";  // can be copied from the page, unlike a hyphen
    } else {
      result += letter;
    }
  }
  return result;
}

std::string bold(std::string_view text) { return "\\fB" + escaped(text, true) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + escaped(text, true) + "\\fR"; }

std::string signature(const OptionText& option) {
  std::string line;
  for (const std::string& name : option.names) {
    if (option.positional) break;
    line += (line.empty() ? "" : ", ") + bold(name);
  }
  if (!option.value.empty()) line += (line.empty() ? "" : " ") + italic(option.value);
  return line + (option.repeated ? " ..." : "");
}

std::string note(const OptionText& option) {
  std::string text = option.purpose.empty() ? "" : option.purpose + ". ";
  if (!option.choices.empty()) {
    std::string choices;
    for (const std::string& choice : option.choices) {
      choices += (choices.empty() ? "" : ", ") + choice;
    }
    text += fmt::format("One of: {}. ", choices);
  }
  if (!option.preset.empty()) text += fmt::format("Default: {}. ", option.preset);
  if (option.required && !option.positional) text += "Required. ";
  while (text.ends_with(' ')) text.pop_back();
  return escaped(text.empty() ? "Required." : text);
}

std::string options_of(const CommandText& command, bool below) {
  std::string text;
  for (const OptionText& option : command.options) {
    if (below && option.names.back() == "--help") continue;  // told once for all
    text += fmt::format(".TP\n{}\n{}\n", signature(option), note(option));
  }
  return text;
}

std::string synopsis(const std::string& path, const CommandText& command) {
  std::string line = bold(path) + " [" + italic("OPTION") + "...]";
  for (const OptionText& option : command.options) {
    if (!option.positional) continue;
    const std::string word = italic(option.value) + (option.repeated ? "..." : "");
    line += " " + (option.required ? word : "[" + word + "]");
  }
  return line;
}

// Those that do something: a command with commands below it is only a part of their names.
void add_commands(std::string& page, const std::string& path, const CommandText& command) {
  for (const CommandText& below : command.commands) {
    const std::string name = path + " " + below.name;
    if (!below.commands.empty()) {
      add_commands(page, name, below);
      continue;
    }
    page += fmt::format(".SS {}\n{}.\n{}", synopsis(name, below), escaped(below.purpose),
                        options_of(below, true));
  }
}

}  // namespace

std::string manual_page(const CommandText& program, std::string_view version) {
  std::string title = program.name;
  for (char& letter : title) letter = upper(letter);
  std::string purpose = program.purpose;
  if (!purpose.empty()) purpose[0] = lower(purpose[0]);
  std::string page = fmt::format(
      ".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{} {} "
      "[{}...]\n"
      ".SH OPTIONS\n{}.SH COMMANDS\n"
      "Each tells its options by \\fB\\-\\-help\\fR, too.\n",
      title, program.name, version, program.name, escaped(purpose), bold(program.name),
      italic("COMMAND"), italic("OPTION"), options_of(program, false));
  add_commands(page, program.name, program);
  return page + fmt::format(kMore, program.name);
}

}  // namespace starling::peer
