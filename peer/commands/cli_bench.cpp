#include "peer/commands/cli_parts.h"

#include <CLI/CLI.hpp>
#include <iterator>
#include <string>
#include <vector>

namespace starling::peer {

namespace {

void add_json(CLI::App& command, Arguments& arguments) {
  command.add_flag("--json", arguments.json, "Instead of a table, all of it as one line of JSON");
}

CLI::Option* add_shape(CLI::App& command, Arguments& arguments) {
  return command
      .add_option("--shape", arguments.bench_step.shape, "A model and a batch of this size")
      ->check(
          CLI::IsMember(std::vector<std::string>(std::begin(kBenchShapes), std::end(kBenchShapes))))
      ->type_name("SHAPE")
      ->capture_default_str();
}

void add_threads(CLI::App& command, std::uint32_t& threads, const char* purpose) {
  command.add_option("--threads", threads, purpose)
      ->capture_default_str()
      ->check(CLI::Range(0, 1024).description(""));
}

void add_seconds(CLI::App& command, double& seconds, const char* purpose) {
  command.add_option("--seconds", seconds, purpose)
      ->capture_default_str()
      ->check(not_negative())  // no NaN: a range takes it
      ->check(CLI::Range(0.0, 3600.0).description(""));
}

void add_rates(CLI::App& bench, Arguments& arguments) {
  RateBenchOptions& options = arguments.bench_rates;
  CLI::App* machine = add_command(bench, arguments, "machine",
                                  "Arithmetic and copies at their best", run_bench_machine_command);
  CLI::App* codec =
      add_command(bench, arguments, "codec", "What an outer step and exchanges cost the mixer",
                  run_bench_codec_command);
  CLI::App* optimizer = add_command(bench, arguments, "optimizer", "AdamW, the norm of gradients",
                                    run_bench_optimizer_command);
  for (CLI::App* command : {codec, optimizer}) {
    command->add_option("--parameters", options.parameters, "Of the model")->capture_default_str();
  }
  for (CLI::App* command : {machine, optimizer}) {
    add_threads(*command, options.threads, "0: as many as a trainer has");
  }
  for (CLI::App* command : {machine, codec, optimizer}) {
    add_seconds(*command, options.seconds, "Of each measurement");
    add_json(*command, arguments);
  }
}

}  // namespace

void add_bench(CLI::App& app, Arguments& arguments) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure how fast this machine is at a peer's work");
  bench->require_subcommand(1);
  CLI::App* step = add_command(*bench, arguments, "step",
                               "Train on random tokens, alone: speed, memory, and each operator "
                               "beside what the machine can do at most",
                               run_bench_step_command);
  CLI::Option* config =
      step->add_option("config", arguments.config, "Configuration file (TOML); else --shape")
          ->type_name("CONFIG");
  add_shape(*step, arguments)->excludes(config);
  add_overrides(*step, arguments, "that");
  add_threads(*step, arguments.bench_step.threads, "0: as the configuration has it");
  add_seconds(*step, arguments.bench_step.seconds, "Of each of two passes, the second by operator");
  add_json(*step, arguments);
  add_rates(*bench, arguments);

  ExchangeBenchOptions& options = arguments.bench_exchange;
  CLI::App* exchange =
      add_command(*bench, arguments, "exchange",
                  "Two peers on this machine, in turn alone and exchanging at every step",
                  run_bench_exchange_command);
  add_shape(*exchange, arguments);
  add_overrides(*exchange, arguments, "that");
  exchange->add_option("--threads", options.threads, "Of each peer")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024).description(""));
  exchange->add_option("--steps", options.steps, "Of each peer")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000).description(""));
  exchange->add_option("--rounds", options.rounds, "Of one run alone and one exchanging")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000).description(""));
  add_json(*exchange, arguments);
}

}  // namespace starling::peer
