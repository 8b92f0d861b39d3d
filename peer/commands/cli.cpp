#include "peer/commands/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "model/tokenizers/tokenizer_json.h"
#include "peer/commands/cli_commands.h"
#include "peer/commands/cli_fault.h"
#include "peer/commands/cli_parts.h"
#include "peer/io/human_text.h"

namespace starling::peer {

CLI::App* add_command(CLI::App& app, Arguments& arguments, const std::string& name,
                      const std::string& purpose, Status (*run)(const Arguments&)) {
  CLI::App* command = app.add_subcommand(name, purpose);
  command->callback([&arguments, run] { arguments.run = run; });
  return command;
}

CLI::Validator not_negative() {
  return {[](std::string& text) {
            double number = 0;
            if (CLI::detail::lexical_cast(text, number) && number >= 0) return std::string();
            return text + " is not a number of 0 or more";
          },
          ""};
}

CLI::Validator whole_number(std::uint64_t most) {
  return {[most](std::string& text) {
            std::string fault = not_negative()(text);
            if (!fault.empty()) return fault;
            long double number = 0;
            std::uint64_t whole = 0;
            const bool fits = CLI::detail::lexical_cast(text, number) &&
                              CLI::detail::lexical_cast(text, whole) && whole <= most &&
                              number <= static_cast<long double>(most);
            if (!fits) fault = text + " is not a whole number of 0 to " + std::to_string(most);
            return fault;
          },
          ""};
}

void add_overrides(CLI::App& command, Arguments& arguments, const std::string& what) {
  command.add_option("--set", arguments.overrides, "Overrides " + what + "; may be repeated")
      ->allow_extra_args(false)
      ->type_name("SECTION.KEY=VALUE");
}

namespace {

void add_configuration(CLI::App& command, Arguments& arguments) {
  command.add_option("config", arguments.config, "Configuration file (TOML)")
      ->required()
      ->type_name("CONFIG");
  add_overrides(command, arguments, "the file");
}

void add_training(CLI::App& app, Arguments& arguments) {
  CLI::App* peer =
      add_command(app, arguments, "peer", "Train as one peer of a swarm", run_peer_command);
  add_configuration(*peer, arguments);
  peer->add_flag("--status-json", arguments.peer.status_json,
                 "One line of JSON a second; ends with its standard input, if that is a pipe");

  CLI::App* swarm =
      add_command(app, arguments, "swarm", "Run a whole swarm on this machine, then average it",
                  run_swarm_command);
  add_configuration(*swarm, arguments);
  swarm->add_option("--peers", arguments.swarm.peers, "Number of peers")
      ->capture_default_str()
      ->take_last()
      ->check(whole_number(most_of(arguments.swarm.peers)));
  swarm->add_option("--sample", arguments.swarm.sample, "Print what the average makes of PROMPT")
      ->type_name("PROMPT")
      ->take_last();
  swarm->add_option("--slow", arguments.slow, "Steps of peer INDEX take FACTOR times as long")
      ->allow_extra_args(false)
      ->type_name("INDEX=FACTOR");
  swarm->add_flag("--restart", arguments.swarm.restart, "Start peers again that die");

  CLI::App* simulate = add_command(
      app, arguments, "simulate", "Try a whole swarm in this process, in virtual time ([simulate])",
      run_simulate_command);
  add_configuration(*simulate, arguments);

  CLI::App* keygen = add_command(app, arguments, "keygen",
                                 "Make a peer's key, or tell the one there is", run_keygen_command);
  keygen->add_option("file", arguments.key_file, "New, or with the key there is")
      ->required()
      ->type_name("FILE");
  keygen->add_flag("--secret", arguments.secret, "A new secret for a whole swarm instead");
  add_command(app, arguments, "config", "Describe every configuration key", run_config_command);
}

void add_top(CLI::App& app, Arguments& arguments) {
  CLI::App* top = add_command(app, arguments, "top",
                              "Watch a peer, and the swarm as it knows it, in a terminal, until q",
                              run_top_command);
  top->add_option("address", arguments.top.address, "Of its status server ([status])")
      ->type_name("ADDRESS")
      ->capture_default_str();
  top->add_flag("--once", arguments.top.once, "Print how it is now, and end");
  top->add_flag("--json", arguments.top.json, "The same as one line of JSON");
}

void add_replay(CLI::App& app, Arguments& arguments) {
  ReplayOptions& options = arguments.replay;
  CLI::App* replay =
      add_command(app, arguments, "replay",
                  "Tell what happened in a run, on a terminal step by step", run_replay_command);
  replay->add_option("run", options.run, "Folder of a run, or of one peer")
      ->required()
      ->type_name("RUN");
  replay->add_option("--from", options.from, "Only from so many seconds after its begin")
      ->check(not_negative())
      ->type_name("SECONDS");
  replay->add_option("--to", options.to, "Only up to there")
      ->check(not_negative())
      ->type_name("SECONDS");
  replay->add_option("--kind", options.kinds, "Only events of this kind; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KIND");
  replay->add_option("--peer", options.peer, "Only what this peer tells, or what is told of it")
      ->type_name("NAME");
  replay->add_flag("--all", arguments.at_once, "Everything at once, on a terminal as well");
  replay->add_flag("--json", options.json, "As lines of JSON");
}

void add_doctor(CLI::App& app, Arguments& arguments) {
  CLI::App* doctor =
      add_command(app, arguments, "doctor",
                  "Check, before a run, all that it needs of this machine and of its seeds",
                  run_doctor_command);
  add_configuration(*doctor, arguments);
  doctor->add_flag("--quick", arguments.doctor.quick,
                   "Of data no more than the headers is read, and no checkpoint");
  doctor->add_flag("--json", arguments.doctor.json, "All of it as one line of JSON");
}

void add_plan(CLI::App& app, Arguments& arguments) {
  CLI::App* plan =
      add_command(app, arguments, "plan",
                  "Propose settings for described machines and lines, and tell what to expect",
                  run_plan_command);
  plan->add_option("file", arguments.plan.file,
                   "Description of the machines (configs/plan.toml), or a peer's configuration: "
                   "then each part of its memory is told")
      ->required()
      ->type_name("PLAN");
  add_overrides(*plan, arguments, "the file");
  plan->add_option("--write", arguments.plan.write, "New files NAME.toml, one for each machine")
      ->type_name("DIR");
  plan->add_flag("--json", arguments.json, "The plan as one line of JSON");
}

void add_text_field(CLI::App& command, std::optional<std::string>& field) {
  command.add_option("--text-field", field, "Of JSON lines: the field with the text")
      ->type_name("NAME")
      ->default_str(std::string(kTextField));
}

void add_text_commands(CLI::App& app, Arguments& arguments) {
  constexpr const char* kTexts =
      "Text, or JSON lines with a \"text\" (.jsonl, .ndjson), also .gz, .zst; or folders of them";
  PrepareOptions& options = arguments.prepare;
  options.threads = 0;
  CLI::App* prepare =
      add_command(app, arguments, "prepare", "Turn texts into token shards", run_prepare_command);
  prepare->add_option("texts", options.texts, kTexts)->required()->type_name("TEXT");
  prepare->add_option("--out", options.out, "New folder")->required()->type_name("DIR");
  prepare
      ->add_option("--tokenizer", arguments.tokenizer,
                   "\"bytes\", a SentencePiece tokenizer.model, or the tokenizer.json of GPT-2, "
                   "Llama 3 or Qwen")
      ->type_name("FILE")
      ->capture_default_str();
  prepare
      ->add_option("--validation-fraction", options.validation_fraction,
                   "Share held out; 0: nothing, where other texts are to measure on")
      ->check(not_negative())
      ->capture_default_str();
  add_text_field(*prepare, options.text_field);
  prepare->add_option("--threads", options.threads, "0: as many as there are processors")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024).description(""));

  CLI::App* tokenizer = app.add_subcommand("tokenizer", "Make a tokenizer");
  tokenizer->require_subcommand(1);
  TokenizerTrainingOptions& training = arguments.tokenizer_training;
  CLI::App* train = add_command(*tokenizer, arguments, "train",
                                "Learn a SentencePiece tokenizer from texts; it loses no text",
                                run_tokenizer_training_command);
  train->add_option("texts", training.texts, kTexts)->required()->type_name("TEXT");
  train->add_option("--out", training.out, "New file, or a folder for a new tokenizer.model")
      ->required()
      ->type_name("FILE");
  add_text_field(*train, training.text_field);
  train->add_option("--type", arguments.tokenizer_type, "Of its model")
      ->check(CLI::IsMember({"unigram", "bpe"}))
      ->type_name("TYPE")
      ->capture_default_str();
  train->add_option("--vocabulary", training.training.vocabulary, "Tokens in it")
      ->capture_default_str()
      ->check(CLI::Range(model::kTrainedVocabularyMin, model::kVocabularyMax).description(""));
  train->add_option("--sample-bytes", training.sample_bytes_max, "Learns from so much of the texts")
      ->capture_default_str()
      ->check(whole_number(most_of(training.sample_bytes_max)));
}

void add_documents(CLI::App& app, Arguments& arguments) {
  CLI::App* completion = add_command(app, arguments, "completion",
                                     "Print the completion of commands and options for a shell",
                                     run_completion_command);
  completion->add_option("shell", arguments.shell, "Whose completion")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}))
      ->type_name("SHELL");
  add_command(app, arguments, "manual", "Print the manual page, for man", run_manual_command);
}

std::vector<std::string> names_of(const CLI::Option& option) {
  if (option.get_positional()) return {option.get_name(true)};
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

OptionText described(const CLI::Option& option) {
  OptionText text{.names = names_of(option),
                  .preset = option.get_default_str(),
                  .purpose = option.get_description(),
                  .positional = option.get_positional(),
                  .required = option.get_required()};
  if (option.get_type_size() == 0) return text;  // a flag
  text.repeated = option.get_expected_max() == CLI::detail::expected_max_vector_size;
  const std::string type = option.get_type_name();  // KIND:{fast,slow}
  const std::size_t brace = type.find(":{");
  text.value = type.substr(0, brace);
  if (brace == std::string::npos) return text;
  text.choices = CLI::detail::split(type.substr(brace + 2, type.size() - brace - 3), ',');
  return text;
}

CommandText described(const CLI::App& app) {
  CommandText text{.name = app.get_name(), .purpose = app.get_description()};
  for (const CLI::Option* option : app.get_options()) text.options.push_back(described(*option));
  for (const CLI::App* command : app.get_subcommands({})) {
    text.commands.push_back(described(*command));
  }
  return text;
}

// As the library takes them, the last one first. `starling help swarm`, as other programs have it,
// is `starling swarm --help`.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  std::reverse(words.begin(), words.end());
  return words;
}

}  // namespace

int run_cli(int argc, char** argv) {
  start_log("starling", LogLevel::kInfo);
  // A file that has reached the process's limit is an error of write() then, as a full disk is.
  ::signal(SIGXFSZ, SIG_IGN);
  explain_lost_mappings();
  CLI::App app("Trains one language model on many unequal machines", "starling");
  app.set_version_flag("--version", "starling " STARLING_VERSION);
  app.require_subcommand(1);
  app.failure_message(command_line_fault);
  Arguments arguments;
  add_training(app, arguments);
  add_doctor(app, arguments);
  add_plan(app, arguments);
  add_top(app, arguments);
  add_replay(app, arguments);
  add_bench(app, arguments);
  add_text_commands(app, arguments);
  add_model_commands(app, arguments);
  add_documents(app, arguments);
  arguments.program = described(app);
  if (argc < 2) {
    std::cerr << app.help();
    return 2;
  }
  try {
    app.parse(words_of(argc, argv));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Status outcome = without_exceptions([&] { return arguments.run(arguments); });
  std::cout << std::flush;
  if (outcome.ok() && std::cout.good()) return 0;
  const std::string fault = outcome.ok()
                                ? "not all of the output could be written; is the disk full?"
                                : printable(outcome.error().message());
  std::cerr << "starling: " << fault << std::endl;
  return 1;
}

}  // namespace starling::peer
