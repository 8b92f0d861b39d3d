// What each subcommand of the binary does: options in, text on standard output, what is wrong as an
// error. cli.cpp puts the options together.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "peer/bench/bench_exchange.h"
#include "peer/bench/bench_rates.h"
#include "peer/bench/bench_step.h"
#include "peer/commands/command_text.h"
#include "peer/commands/plan_command.h"
#include "peer/commands/text_commands.h"
#include "peer/doctor/doctor.h"
#include "peer/models/choices.h"
#include "peer/models/consolidate.h"
#include "peer/models/model_commands.h"
#include "peer/models/model_export.h"
#include "peer/models/model_import.h"
#include "peer/roles/peer.h"
#include "peer/simulate/simulate.h"
#include "peer/swarm/swarm_launcher.h"
#include "peer/watch/replay.h"
#include "peer/watch/top.h"

namespace starling::peer {

// Everything the command line can say; `run` is the chosen subcommand.
struct Arguments {
  Status (*run)(const Arguments& arguments) = nullptr;
  std::filesystem::path config;
  std::vector<std::string> overrides;
  PeerOptions peer;
  SwarmOptions swarm;
  std::vector<std::string> slow;
  TopOptions top;
  ReplayOptions replay;
  bool at_once = false;  // replay: no stepping
  DoctorOptions doctor;
  PlanOptions plan;
  StepBenchOptions bench_step;
  RateBenchOptions bench_rates;
  ExchangeBenchOptions bench_exchange;
  bool json = false;
  PrepareOptions prepare;
  std::string tokenizer = "bytes";
  TokenizerTrainingOptions tokenizer_training;
  std::string tokenizer_type = "unigram";
  EvalOptions eval;
  ChoicesOptions choices;
  GenerateOptions generate;
  AverageOptions average;
  ExportOptions export_model;
  std::string number_type = "bf16";
  ConsolidateOptions consolidate;
  ImportOptions import_model;
  std::vector<std::filesystem::path> folders;
  std::filesystem::path key_file;
  bool secret = false;
  std::string shell;
  CommandText program;  // the whole command line
};

Status run_peer_command(const Arguments& arguments);
Status run_swarm_command(const Arguments& arguments);
Status run_simulate_command(const Arguments& arguments);
Status run_top_command(const Arguments& arguments);
Status run_replay_command(const Arguments& arguments);
Status run_doctor_command(const Arguments& arguments);
Status run_plan_command(const Arguments& arguments);
Status run_bench_step_command(const Arguments& arguments);
Status run_bench_machine_command(const Arguments& arguments);
Status run_bench_codec_command(const Arguments& arguments);
Status run_bench_optimizer_command(const Arguments& arguments);
Status run_bench_exchange_command(const Arguments& arguments);
Status run_prepare_command(const Arguments& arguments);
Status run_tokenizer_training_command(const Arguments& arguments);
Status run_eval_command(const Arguments& arguments);
Status run_generate_command(const Arguments& arguments);
Status run_average_command(const Arguments& arguments);
Status run_export_command(const Arguments& arguments);
Status run_consolidate_command(const Arguments& arguments);
Status run_import_command(const Arguments& arguments);
Status run_coverage_command(const Arguments& arguments);
Status run_keygen_command(const Arguments& arguments);
Status run_config_command(const Arguments& arguments);
Status run_completion_command(const Arguments& arguments);
Status run_manual_command(const Arguments& arguments);

}  // namespace starling::peer
