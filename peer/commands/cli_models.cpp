#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "peer/commands/cli_parts.h"
#include "peer/machine/backend.h"

namespace starling::peer {

namespace {

void add_weights(CLI::App& command, WeightsKind& weights) {
  const auto take = [&weights](const std::string& kind) {
    weights = kind == "slow" ? WeightsKind::kSlow : WeightsKind::kFast;
  };
  command
      .add_option_function<std::string>("--weights", take, "Trained last, or averaged with others")
      ->check(CLI::IsMember({"fast", "slow"}))
      ->type_name("KIND")
      ->default_str("fast");
}

CLI::Validator device_name() {
  return {[](std::string& name) {
            if (name == "auto" || name == "cpu" || ordinal_of(name).ok()) return std::string();
            return name + " is none of auto, cpu, cuda, cuda:0, cuda:1 and so on";
          },
          ""};
}

// And where they compute.
void add_runner(CLI::App& command, RunnerChoice& runner) {
  add_weights(command, runner.weights);
  command.add_option("--device", runner.device, "auto (a GPU if it can), cpu, cuda:0 and so on")
      ->type_name("DEVICE")
      ->capture_default_str()
      ->check(device_name());
}

void add_number_type(CLI::App& command, Arguments& arguments) {
  command.add_option("--type", arguments.number_type, "Of the numbers in it")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->type_name("TYPE")
      ->capture_default_str();
}

void add_checkpoint(CLI::App& command, std::filesystem::path& checkpoint) {
  command.add_option("checkpoint", checkpoint, "File, or a peer's folder for its newest")
      ->required()
      ->type_name("CHECKPOINT");
}

constexpr const char* kByTokens = "Weigh each by the tokens it has seen";
constexpr const char* kAnyRun = "Also models of different runs, whose mean is worse than either";

void add_tokenizer(CLI::App& command, std::string& tokenizer) {
  command
      .add_option("--tokenizer", tokenizer,
                  "As for prepare; otherwise the one that the checkpoint names")
      ->type_name("FILE");
}

// With other people's tools.
void add_exchange_commands(CLI::App& app, Arguments& arguments) {
  ExportOptions& options = arguments.export_model;
  CLI::App* exporting = add_command(app, arguments, "export",
                                    "Write a checkpoint as a folder that Hugging Face's tools open",
                                    run_export_command);
  add_checkpoint(*exporting, options.checkpoint);
  exporting->add_option("out", options.out, "New folder")->required()->type_name("DIR");
  add_weights(*exporting, options.weights);
  add_number_type(*exporting, arguments);
  add_tokenizer(*exporting, options.tokenizer);

  ConsolidateOptions& merged = arguments.consolidate;
  CLI::App* consolidating =
      add_command(app, arguments, "consolidate",
                  "Merge what peers have learned into one exported model, and record whose it is",
                  run_consolidate_command);
  consolidating->add_option("out", merged.out, "New folder")->required()->type_name("DIR");
  consolidating->add_option("inputs", merged.inputs, "Checkpoints, or folders of peers or runs")
      ->required()
      ->type_name("IN");
  consolidating->add_flag("--by-tokens", merged.by_tokens, kByTokens);
  consolidating->add_flag("--any-run", merged.any_run, kAnyRun);
  add_weights(*consolidating, merged.weights);
  add_number_type(*consolidating, arguments);
  add_tokenizer(*consolidating, merged.tokenizer);

  CLI::App* importing =
      add_command(app, arguments, "import", "Make a checkpoint of a Llama in Hugging Face's format",
                  run_import_command);
  importing->add_option("folder", arguments.import_model.folder, "With config.json and safetensors")
      ->required()
      ->type_name("DIR");
  importing->add_option("out", arguments.import_model.out, "New checkpoint")
      ->required()
      ->type_name("OUT");
}

void add_eval(CLI::App& app, Arguments& arguments) {
  CLI::App* eval =
      add_command(app, arguments, "eval",
                  "Measure a checkpoint, on token shards (--data) or by questions (--choices)",
                  run_eval_command);
  add_checkpoint(*eval, arguments.eval.checkpoint);
  CLI::Option* data =
      eval->add_option("--data", arguments.eval.data, "Shards, folders or patterns (*.bin)")
          ->type_name("SHARDS");
  CLI::Option* choices =
      eval->add_option("--choices", arguments.choices.file,
                       "Or questions with endings to choose from, one JSON object per line")
          ->type_name("FILE")
          ->excludes(data);
  eval->add_option("--tokenizer", arguments.choices.tokenizer,
                   "For --choices, as for prepare; otherwise the one that the checkpoint names")
      ->type_name("FILE")
      ->needs(choices);
  add_runner(*eval, arguments.eval.runner);
  eval->add_option("--batches", arguments.eval.batches,
                   "Of --data, evenly spread; 0 reads everything")
      ->capture_default_str()
      ->check(whole_number(most_of(arguments.eval.batches)))
      ->excludes(choices);
  eval->add_flag("--json", arguments.json, "The result as one line of JSON");
}

}  // namespace

void add_model_commands(CLI::App& app, Arguments& arguments) {
  add_eval(app, arguments);
  GenerateOptions& options = arguments.generate;
  CLI::App* generate = add_command(app, arguments, "generate", "Continue a text with a checkpoint",
                                   run_generate_command);
  add_checkpoint(*generate, options.checkpoint);
  generate->add_option("--prompt", options.prompt, "Text to go on from")->type_name("TEXT");
  add_runner(*generate, options.runner);
  add_tokenizer(*generate, options.tokenizer);
  generate->add_option("--tokens", options.tokens, "Tokens to draw")
      ->capture_default_str()
      ->check(whole_number(most_of(options.tokens)));
  generate->add_option("--temperature", options.sampling.temperature, "0 takes the likeliest")
      ->capture_default_str()
      ->check(not_negative());
  generate->add_option("--top-k", options.sampling.top_k, "0 keeps all tokens")
      ->capture_default_str()
      ->check(whole_number(most_of(options.sampling.top_k)));
  generate
      ->add_option("--top-p", options.sampling.top_p,
                   "Only the likeliest tokens that have P of the probability; 1 keeps all")
      ->capture_default_str()
      ->type_name("P")
      ->check(CLI::Range(0.0, 1.0).description(""));
  generate->add_option("--seed", options.seed, "Same seed, same text")
      ->capture_default_str()
      ->check(whole_number(most_of(options.seed)));

  CLI::App* average =
      add_command(app, arguments, "average", "Average the weights of checkpoints of one model",
                  run_average_command);
  average->add_option("out", arguments.average.out, "New checkpoint")->required()->type_name("OUT");
  average
      ->add_option("inputs", arguments.average.inputs, "Checkpoints, or folders of peers or runs")
      ->required()
      ->type_name("IN");
  average->add_flag("--by-tokens", arguments.average.by_tokens, kByTokens);
  average->add_flag("--any-run", arguments.average.any_run, kAnyRun);

  add_exchange_commands(app, arguments);

  CLI::App* coverage =
      add_command(app, arguments, "coverage",
                  "Tell how evenly the training data was read, and by whom", run_coverage_command);
  coverage->add_option("folders", arguments.folders, "Of a run, or of some of its peers")
      ->required()
      ->type_name("FOLDER");
}

}  // namespace starling::peer
