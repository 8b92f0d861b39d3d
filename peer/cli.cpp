#include "peer/cli.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "peer/config.h"
#include "peer/coverage.h"
#include "peer/key_files.h"
#include "peer/model_commands.h"
#include "peer/model_export.h"
#include "peer/model_import.h"
#include "peer/peer.h"
#include "peer/swarm_launcher.h"
#include "peer/text_commands.h"

namespace starling::peer {

namespace {

// Everything the command line can say; `run` is the chosen subcommand.
struct Arguments {
  Status (*run)(const Arguments& arguments) = nullptr;
  std::filesystem::path config;
  std::vector<std::string> overrides;
  PeerOptions peer;
  SwarmOptions swarm;
  std::vector<std::string> slow;
  PrepareOptions prepare;
  std::string tokenizer = "bytes";
  TokenizerTrainingOptions tokenizer_training;
  std::string tokenizer_type = "unigram";
  std::string weights = "fast";
  EvalOptions eval;
  GenerateOptions generate;
  AverageOptions average;
  ExportOptions export_model;
  std::string number_type = "bf16";
  ImportOptions import_model;
  std::vector<std::filesystem::path> folders;
  std::filesystem::path key_file;
  bool secret = false;
};

// --- the commands ---

Status run_peer_command(const Arguments& arguments) {
  // A closed standard output is an error of write() then: the peer can still save its work.
  ::signal(SIGPIPE, SIG_IGN);
  auto config = load_config(arguments.config, arguments.overrides);
  if (!config.ok()) return std::move(config).error();
  return run_peer(config.value(), arguments.peer);
}

Result<SlowPeer> parse_slow(std::string_view text) {
  const std::size_t equals = text.find('=');
  SlowPeer slow;
  if (equals != std::string_view::npos) {
    const char* const middle = text.data() + equals;
    const char* const end = text.data() + text.size();
    const auto peer = std::from_chars(text.data(), middle, slow.peer);
    const auto factor = std::from_chars(middle + 1, end, slow.factor);
    if (peer.ec == std::errc() && peer.ptr == middle && factor.ec == std::errc() &&
        factor.ptr == end) {
      return slow;
    }
  }
  return Error(ErrorCode::kInvalidConfig,
               fmt::format("--slow {}: expected INDEX=FACTOR, like 1=3", text));
}

std::size_t terminal_columns(int descriptor) {
  if (::isatty(descriptor) == 0) return 0;
  winsize size{};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

Status run_swarm_command(const Arguments& arguments) {
  SwarmOptions options = arguments.swarm;
  std::error_code failure;
  options.program = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure) return Error(ErrorCode::kIo, "cannot find this program: " + failure.message());
  options.config = arguments.config;
  options.overrides = arguments.overrides;
  options.columns = terminal_columns(STDOUT_FILENO);
  for (const std::string& text : arguments.slow) {
    auto slow = parse_slow(text);
    if (!slow.ok()) return std::move(slow).error();
    options.slow.push_back(slow.value());
  }
  return run_swarm(options, std::cout);
}

Console console() { return {std::cout, std::cerr, terminal_columns(STDERR_FILENO)}; }

Status run_prepare_command(const Arguments& arguments) {
  PrepareOptions options = arguments.prepare;
  if (options.threads == 0) options.threads = std::thread::hardware_concurrency();
  return run_prepare(options, arguments.tokenizer, console());
}

Status run_tokenizer_training_command(const Arguments& arguments) {
  TokenizerTrainingOptions options = arguments.tokenizer_training;
  options.training.algorithm = arguments.tokenizer_type == "bpe"
                                   ? model::SentencePieceModel::Algorithm::kBpe
                                   : model::SentencePieceModel::Algorithm::kUnigram;
  return run_tokenizer_training(options, console());
}

WeightsKind weights_of(const Arguments& arguments) {
  return arguments.weights == "slow" ? WeightsKind::kSlow : WeightsKind::kFast;
}

Status run_eval_command(const Arguments& arguments) {
  EvalOptions options = arguments.eval;
  options.weights = weights_of(arguments);
  auto evaluated = evaluate(options);
  if (!evaluated.ok()) return std::move(evaluated).error();
  const EvalReport& report = evaluated.value();
  const bool bytes = report.bytes > 0;
  std::cout << fmt::format("loss {:.4f}  perplexity {:.3f}  bits per {} {:.4f}  ({} tokens)\n",
                           report.loss, report.perplexity(), bytes ? "byte" : "token",
                           bytes ? report.bits_per_byte() : report.bits_per_token(), report.tokens);
  return ok_status();
}

Status run_generate_command(const Arguments& arguments) {
  Status outcome =
      generate(arguments.generate, [](std::string_view text) { std::cout << text << std::flush; });
  if (outcome.ok()) std::cout << '\n';
  return outcome;
}

Status run_average_command(const Arguments& arguments) {
  auto report = average(arguments.average);
  if (!report.ok()) return std::move(report).error();
  std::cout << fmt::format("{}: {} checkpoints, {} tokens\n", arguments.average.out.string(),
                           arguments.average.inputs.size(), report.value().tokens);
  return ok_status();
}

Status run_export_command(const Arguments& arguments) {
  ExportOptions options = arguments.export_model;
  options.weights = weights_of(arguments);
  options.type = arguments.number_type == "f32"   ? FloatType::kF32
                 : arguments.number_type == "f16" ? FloatType::kF16
                                                  : FloatType::kBf16;
  auto report = export_model(options);
  if (!report.ok()) return std::move(report).error();
  std::cout << fmt::format("{}: {} parameters as {}, {} bytes in {} file{}\n", options.out.string(),
                           report.value().parameters, to_string(options.type), report.value().bytes,
                           report.value().files, report.value().files == 1 ? "" : "s");
  return ok_status();
}

Status run_import_command(const Arguments& arguments) {
  const ImportOptions& options = arguments.import_model;
  auto report = import_model(options);
  if (!report.ok()) return std::move(report).error();
  std::cout << fmt::format(
      "{0}: {1} parameters. To train on from it, give every peer this file, and say in its "
      "configuration:\n\n[run]\nstart = \"{0}\"\n\n{2}",
      options.out.string(), report.value().parameters, report.value().section);
  return ok_status();
}

Status run_coverage_command(const Arguments& arguments) {
  auto found = coverage(arguments.folders);
  if (!found.ok()) return std::move(found).error();
  std::cout << printable(coverage_text(found.value()));
  return ok_status();
}

Status run_keygen_command(const Arguments& arguments) {
  const std::string path = arguments.key_file.string();
  if (arguments.secret) {
    Status made = make_secret_file(arguments.key_file);
    if (!made.ok()) return made;
    std::cout << fmt::format(
        "{}: a secret. Bring it to every peer by a safe way and set trust.secret to it.\n", path);
    return ok_status();
  }
  auto identity = load_or_make_identity(arguments.key_file);
  if (!identity.ok()) return std::move(identity).error();
  std::cout << fmt::format(
      "{0}\n"
      "  is the public key of {1}, which is to stay secret. Set trust.key = \"{1}\" on its "
      "machine.\n"
      "  Others let it in by that line in the file trust.allow, and join through it by\n"
      "  gossip.seeds = [\"{0}@HOST:PORT\"].\n",
      gossip::to_string(identity.value().key()), path);
  return ok_status();
}

Status run_config_command(const Arguments&) {
  std::cout << describe_config();
  return ok_status();
}

// --- the command line ---

CLI::App* add_command(CLI::App& app, Arguments& arguments, const std::string& name,
                      const std::string& purpose, Status (*run)(const Arguments&)) {
  CLI::App* command = app.add_subcommand(name, purpose);
  command->callback([&arguments, run] { arguments.run = run; });
  return command;
}

void add_configuration(CLI::App& command, Arguments& arguments) {
  command.add_option("config", arguments.config, "Configuration file (TOML)")
      ->required()
      ->type_name("CONFIG");
  command.add_option("--set", arguments.overrides, "Overrides the file; may be repeated")
      ->allow_extra_args(false)
      ->type_name("SECTION.KEY=VALUE");
}

void add_weights(CLI::App& command, Arguments& arguments) {
  command.add_option("--weights", arguments.weights, "Trained last, or averaged with others")
      ->check(CLI::IsMember({"fast", "slow"}))
      ->type_name("KIND")
      ->capture_default_str();
}

void add_training(CLI::App& app, Arguments& arguments) {
  CLI::App* peer =
      add_command(app, arguments, "peer", "Train as one peer of a swarm", run_peer_command);
  add_configuration(*peer, arguments);
  peer->add_flag("--status-json", arguments.peer.status_json,
                 "One line of JSON a second; ends with its standard input");

  CLI::App* swarm =
      add_command(app, arguments, "swarm", "Run a whole swarm on this machine, then average it",
                  run_swarm_command);
  add_configuration(*swarm, arguments);
  swarm->add_option("--peers", arguments.swarm.peers, "Number of peers")->capture_default_str();
  swarm->add_option("--sample", arguments.swarm.sample, "Print what the average makes of PROMPT")
      ->type_name("PROMPT");
  swarm->add_option("--slow", arguments.slow, "Steps of peer INDEX take FACTOR times as long")
      ->allow_extra_args(false)
      ->type_name("INDEX=FACTOR");
  swarm->add_flag("--restart", arguments.swarm.restart, "Start peers again that die");

  CLI::App* keygen = add_command(app, arguments, "keygen",
                                 "Make a peer's key, or tell the one there is", run_keygen_command);
  keygen->add_option("file", arguments.key_file, "Key file")->required()->type_name("FILE");
  keygen->add_flag("--secret", arguments.secret, "A new secret for a whole swarm instead");
  add_command(app, arguments, "config", "Describe every configuration key", run_config_command);
}

void add_text_commands(CLI::App& app, Arguments& arguments) {
  constexpr const char* kTexts = "Text, or JSON lines with a \"text\" (.jsonl); also .gz, .zst";
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
  prepare->add_option("--validation-fraction", options.validation_fraction, "Share held out")
      ->capture_default_str();
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
  train->add_option("--type", arguments.tokenizer_type, "Of its model")
      ->check(CLI::IsMember({"unigram", "bpe"}))
      ->type_name("TYPE")
      ->capture_default_str();
  train->add_option("--vocabulary", training.training.vocabulary, "Tokens in it")
      ->capture_default_str();
  train->add_option("--sample-bytes", training.sample_bytes_max, "Learns from so much of the texts")
      ->capture_default_str();
}

// With other people's tools.
void add_exchange_commands(CLI::App& app, Arguments& arguments) {
  ExportOptions& options = arguments.export_model;
  CLI::App* exporting = add_command(app, arguments, "export",
                                    "Write a checkpoint as a folder that Hugging Face's tools open",
                                    run_export_command);
  exporting->add_option("checkpoint", options.checkpoint)->required()->type_name("CHECKPOINT");
  exporting->add_option("out", options.out, "New folder")->required()->type_name("DIR");
  add_weights(*exporting, arguments);
  exporting->add_option("--type", arguments.number_type, "Of the numbers in it")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->type_name("TYPE")
      ->capture_default_str();

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

void add_model_commands(CLI::App& app, Arguments& arguments) {
  CLI::App* eval =
      add_command(app, arguments, "eval", "Measure a checkpoint on token shards", run_eval_command);
  eval->add_option("checkpoint", arguments.eval.checkpoint)->required()->type_name("CHECKPOINT");
  eval->add_option("--data", arguments.eval.data, "Shards, or folders of shards")
      ->required()
      ->type_name("SHARDS");
  add_weights(*eval, arguments);
  eval->add_option("--batches", arguments.eval.batches, "Evenly spread; 0 reads everything");

  GenerateOptions& options = arguments.generate;
  CLI::App* generate = add_command(app, arguments, "generate", "Continue a text with a checkpoint",
                                   run_generate_command);
  generate->add_option("checkpoint", options.checkpoint)->required()->type_name("CHECKPOINT");
  generate->add_option("--prompt", options.prompt, "Text to go on from")->type_name("TEXT");
  add_weights(*generate, arguments);
  generate
      ->add_option("--tokenizer", options.tokenizer,
                   "As for prepare; otherwise the one beside the training data")
      ->type_name("FILE");
  generate->add_option("--tokens", options.tokens, "Tokens to draw")->capture_default_str();
  generate->add_option("--temperature", options.sampling.temperature, "0 takes the likeliest")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber.description(""));
  generate->add_option("--top-k", options.sampling.top_k, "0 keeps all tokens")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber.description(""));
  generate->add_option("--seed", options.seed, "Same seed, same text")->capture_default_str();

  CLI::App* average =
      add_command(app, arguments, "average", "Average the weights of checkpoints of one model",
                  run_average_command);
  average->add_option("out", arguments.average.out)->required()->type_name("OUT");
  average->add_option("inputs", arguments.average.inputs)->required()->type_name("IN");
  average->add_flag("--by-tokens", arguments.average.by_tokens,
                    "Weigh each by the tokens it has seen");

  add_exchange_commands(app, arguments);

  CLI::App* coverage =
      add_command(app, arguments, "coverage",
                  "Tell how evenly the training data was read, and by whom", run_coverage_command);
  coverage->add_option("folders", arguments.folders, "Of a run, or of some of its peers")
      ->required()
      ->type_name("FOLDER");
}

}  // namespace

int run_cli(int argc, char** argv) {
  start_log("starling", LogLevel::kInfo);
  CLI::App app("Starling trains one language model on many unequal machines.", "starling");
  app.set_version_flag("--version", "starling " STARLING_VERSION);
  app.require_subcommand(1);
  Arguments arguments;
  add_training(app, arguments);
  add_text_commands(app, arguments);
  add_model_commands(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Status outcome = arguments.run(arguments);
  std::cout << std::flush;
  if (outcome.ok()) return 0;
  std::cerr << "starling: " << printable(outcome.error().message()) << std::endl;
  return 1;
}

}  // namespace starling::peer
