#include "peer/commands/completion.h"

#include <fmt/format.h>

#include <string_view>

namespace starling::peer {

namespace {

enum class Want { kNothing, kChoice, kFile, kFolder, kKey };

// Most positionals are files; most values of options are not.
Want want(const OptionText& option) {
  const std::string& value = option.value;
  if (!option.choices.empty()) return Want::kChoice;
  if (value == "DIR" || value == "FOLDER") return Want::kFolder;
  if (value == "FILE" || value == "SHARDS") return Want::kFile;
  if (value == "SECTION.KEY=VALUE") return Want::kKey;
  return option.positional && value != "ADDRESS" ? Want::kFile : Want::kNothing;
}

std::string joined(std::span<const std::string> words, std::string_view end = "") {
  std::string line;
  for (const std::string& word : words) {
    line += fmt::format("{}{}{}", line.empty() ? "" : " ", word, end);
  }
  return line;
}

// --- bash ---

// How bash looks for an answer; the words are those of `words`.
std::string_view bash_want(Want wanted) {
  switch (wanted) {
    case Want::kNothing: return "nothing";
    case Want::kChoice: return "words";
    case Want::kFile: return "files";
    case Want::kFolder: return "folders";
    case Want::kKey: return "keys";
  }
  return "nothing";
}

std::string bash_value(const OptionText& option) {
  const std::string_view wanted = bash_want(want(option));
  if (option.choices.empty()) return fmt::format("want={}", wanted);
  return fmt::format("want={} words='{}'", wanted, joined(option.choices));
}

// The command's case: what may stand there, what its options are, and what stands behind one of
// them. Where one of its positionals is a file any may be, as their number is not counted.
void add_bash_case(std::string& script, const std::string& path, const CommandText& command) {
  std::vector<std::string> words;
  std::string values, positional;
  for (const OptionText& option : command.options) {
    if (option.positional) {
      if (positional.empty() || want(option) == Want::kFile) positional = bash_value(option);
      continue;
    }
    words.insert(words.end(), option.names.begin(), option.names.end());
    if (option.value.empty()) continue;
    std::string names;
    for (const std::string& name : option.names) names += (names.empty() ? "" : " | ") + name;
    values += fmt::format("        {}) {} ;;\n", names, bash_value(option));
  }
  std::vector<std::string> commands;
  for (const CommandText& below : command.commands) commands.push_back(below.name);
  if (positional.empty()) positional = fmt::format("want=words words='{}'", joined(commands));
  script +=
      fmt::format("    '{}')\n      {}\n      [[ $current != -* ]] || want=words words='{}'\n",
                  path, positional, joined(words));
  if (!values.empty()) script += fmt::format("      case $previous in\n{}      esac\n", values);
  script += "      ;;\n";
  for (const CommandText& below : command.commands) {
    add_bash_case(script, path + "/" + below.name, below);
  }
}

void add_paths(std::string& patterns, const std::string& path, const CommandText& command) {
  for (const CommandText& below : command.commands) {
    const std::string whole = path + "/" + below.name;
    patterns += (patterns.empty() ? "" : " | ") + whole;
    add_paths(patterns, whole, below);
  }
}

// {0}: name, {1}: paths of commands, {2}: cases, {3}: keys
constexpr std::string_view kBash = R"(# Completion of {0} in bash, made by `{0} completion bash`.
_{0}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command='' want words i
  # The = of --option=VALUE is a word of its own here.
  if [[ $current == = ]]; then
    current=''
  elif [[ $previous == = && $COMP_CWORD -ge 2 ]]; then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case $command/${{COMP_WORDS[i]}} in
      {1}) command+=/${{COMP_WORDS[i]}} ;;
    esac
  done
  case $command in
{2}  esac
  COMPREPLY=()
  case $want in
    words) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current") ;;
    keys)
      words='{3}'
      compopt -o nospace 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
      ;;
    files)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      ;;
    folders)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$current")
      ;;
  esac
}}
complete -F _{0} {0}
)";

// --- zsh ---

// Between single quotes, where `special` have a meaning to _arguments or _describe.
std::string zsh_text(std::string_view text, std::string_view special) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\'') {
      result += "'\\''";
      continue;
    }
    if (special.find(letter) != std::string_view::npos) result += '\\';
    result += letter;
  }
  return result;
}

std::string zsh_action(const std::string& function, const OptionText& option) {
  switch (want(option)) {
    case Want::kNothing: return " ";
    case Want::kChoice: return fmt::format("({})", joined(option.choices));
    case Want::kFile: return "_files";
    case Want::kFolder: return "_files -/";
    case Want::kKey: return function + "_keys";
  }
  return " ";
}

// What _arguments is to know of one option, a line for each of its names.
std::string zsh_option(const std::string& root, const OptionText& option, int& position) {
  const std::string action = zsh_action(root, option);
  const std::string value = zsh_text(option.value, ":\\");
  if (option.positional) {
    const std::string place = option.repeated ? "*" : fmt::format("{}", ++position);
    return fmt::format(" \\\n    '{}:{}:{}'", place, value, action);
  }
  std::string lines;
  for (const std::string& name : option.names) {
    lines += fmt::format(" \\\n    '{}{}{}[{}]{}'", option.repeated ? "*" : "", name,
                         option.value.empty() ? "" : "=", zsh_text(option.purpose, "[]\\"),
                         option.value.empty() ? "" : fmt::format(":{}:{}", value, action));
  }
  return lines;
}

void add_zsh_function(std::string& script, const std::string& function, const std::string& root,
                      const CommandText& command) {
  std::string options, named, chosen;
  int position = 0;
  for (const OptionText& option : command.options) options += zsh_option(root, option, position);
  for (const CommandText& below : command.commands) {
    add_zsh_function(script, function + "_" + below.name, root, below);
    named += fmt::format("    '{}:{}'\n", below.name, zsh_text(below.purpose, ":\\"));
    chosen += fmt::format("        {0}) {1}_{0} ;;\n", below.name, function);
  }
  script += function + "() {\n";
  if (command.commands.empty()) {
    script += fmt::format("  _arguments{}\n}}\n\n", options);
    return;
  }
  script += fmt::format(
      "  local curcontext=$curcontext state line\n  local -a commands=(\n{}  )\n  _arguments -C{}"
      " \\\n    '1:COMMAND:->command' \\\n    '*:: :->rest'\n  case $state in\n"
      "    command) _describe command commands ;;\n    rest)\n      case $words[1] in\n{}"
      "      esac\n      ;;\n  esac\n}}\n\n",
      named, options, chosen);
}

}  // namespace

std::string bash_completion(const CommandText& program, std::span<const std::string> keys) {
  std::string paths, cases;
  add_paths(paths, "", program);
  add_bash_case(cases, "", program);
  return fmt::format(kBash, program.name, paths, cases, joined(keys, "="));
}

std::string zsh_completion(const CommandText& program, std::span<const std::string> keys) {
  const std::string function = "_" + program.name;
  std::string script = fmt::format(
      "#compdef {0}\n# Completion of {0} in zsh, made by `{0} completion zsh`.\n\n{1}_keys() {{\n"
      "  compadd -S '' -- {2}\n}}\n\n",
      program.name, function, joined(keys, "="));
  add_zsh_function(script, function, function, program);
  return script + fmt::format(
                      "# Autoloaded from the fpath, or sourced by hand.\n"
                      "if [[ $funcstack[1] == {0} ]]; then\n  {0} \"$@\"\nelse\n"
                      "  compdef {0} {1}\nfi\n",
                      function, program.name);
}

}  // namespace starling::peer
