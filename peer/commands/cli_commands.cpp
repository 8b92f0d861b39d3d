#include "peer/commands/cli_commands.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>
#include <string_view>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/parse_number.h"
#include "peer/bench/bench_codec.h"
#include "peer/bench/bench_optimizer.h"
#include "peer/bench/bench_text.h"
#include "peer/commands/completion.h"
#include "peer/commands/manual_page.h"
#include "peer/config/config.h"
#include "peer/config/config_keys.h"
#include "peer/config/config_text.h"
#include "peer/files/key_files.h"
#include "peer/io/clock.h"
#include "peer/io/file_io.h"
#include "peer/io/human_text.h"
#include "peer/io/progress_bar.h"
#include "peer/machine/backend.h"
#include "peer/models/coverage.h"

namespace starling::peer {

namespace {

Result<SlowPeer> parse_slow(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals != std::string_view::npos) {
    const auto peer = parse_number<decltype(SlowPeer::peer)>(text.substr(0, equals));
    const auto factor = parse_number<decltype(SlowPeer::factor)>(text.substr(equals + 1));
    if (peer && factor) return SlowPeer{*peer, *factor};
  }
  return Error(ErrorCode::kInvalidConfig,
               fmt::format("--slow {}: expected INDEX=FACTOR, like 1=3", text));
}

// No columns: that is no terminal.
TopSize terminal_size(int descriptor) {
  if (::isatty(descriptor) == 0) return {.columns = 0};
  winsize size{};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? TopSize{.columns = size.ws_col, .rows = size.ws_row} : TopSize{.rows = 24};
}

std::size_t terminal_columns(int descriptor) { return terminal_size(descriptor).columns; }

Console console() { return {std::cout, std::cerr, terminal_columns(STDERR_FILENO)}; }

Result<std::filesystem::path> this_program() {
  std::error_code failure;
  auto path = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure) return Error(ErrorCode::kIo, "cannot find this program: " + failure.message());
  return path;
}

FloatType type_of(const Arguments& arguments) {
  if (arguments.number_type == "f32") return FloatType::kF32;
  return arguments.number_type == "f16" ? FloatType::kF16 : FloatType::kBf16;
}

}  // namespace

Status run_peer_command(const Arguments& arguments) {
  // A closed standard output is an error of write() then: the peer can still save its work.
  ::signal(SIGPIPE, SIG_IGN);
  auto config = load_config(arguments.config, arguments.overrides);
  if (!config.ok()) return std::move(config).error();
  return run_peer(config.value(), arguments.peer);
}

Status run_swarm_command(const Arguments& arguments) {
  SwarmOptions options = arguments.swarm;
  auto program = this_program();
  if (!program.ok()) return std::move(program).error();
  options.program = std::move(program).value();
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

Status run_simulate_command(const Arguments& arguments) {
  return run_simulation({.config = arguments.config, .overrides = arguments.overrides}, std::cout);
}

Status run_top_command(const Arguments& arguments) {
  TopOptions options = arguments.top;
  options.size = [] { return terminal_size(STDOUT_FILENO); };
  options.keys = STDIN_FILENO;
  return run_top(options, std::cout);
}

Status run_replay_command(const Arguments& arguments) {
  ReplayOptions options = arguments.replay;
  const bool terminal = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  if (terminal && !options.json && !arguments.at_once) options.steps = &std::cin;
  return run_replay(options, std::cout, std::cerr);
}

Status run_doctor_command(const Arguments& arguments) {
  DoctorOptions options = arguments.doctor;
  options.config = arguments.config;
  options.overrides = arguments.overrides;
  start_log("starling", LogLevel::kError);  // what is worth a warning becomes a finding
  return run_doctor(options, std::cout);
}

Status run_plan_command(const Arguments& arguments) {
  PlanOptions options = arguments.plan;
  options.overrides = arguments.overrides;
  options.json = arguments.json;
  start_log("starling", LogLevel::kError);
  return run_plan(options, std::cout);
}

namespace {

void print(const Arguments& arguments, const nlohmann::json& json, const std::string& text) {
  std::cout << (arguments.json ? json.dump() + "\n" : text);
}

// Nothing else is to be seen until the answer is there.
void tell_of(std::string_view work) {
  if (::isatty(STDERR_FILENO) != 0) std::cerr << "starling bench: " << work << "\n";
}

void tell_of_figures(double seconds) { tell_of(fmt::format("{:g} s for each figure", seconds)); }

Status print_rates(const Arguments& arguments, Result<RateBench> bench) {
  if (!bench.ok()) return std::move(bench).error();
  print(arguments, rates_json(bench.value()), rates_text(bench.value()));
  return ok_status();
}

}  // namespace

Status run_bench_step_command(const Arguments& arguments) {
  StepBenchOptions options = arguments.bench_step;
  options.config = arguments.config;
  options.overrides = arguments.overrides;
  tell_of(fmt::format("two passes of {:g} s, and some seconds before each", options.seconds));
  auto bench = bench_step(options);
  if (!bench.ok()) return std::move(bench).error();
  print(arguments, step_json(bench.value()), step_text(bench.value()));
  return ok_status();
}

Status run_bench_machine_command(const Arguments& arguments) {
  const RateBenchOptions& options = arguments.bench_rates;
  auto plan = plan_processors(processor_facts(), {.threads = options.threads, .pin = true});
  if (!plan.ok()) return std::move(plan).error().with_context("--threads");
  tell_of_figures(options.seconds);
  const MachineSpeed machine =
      measure_machine({.threads = plan.value().threads, .seconds = options.seconds});
  print(arguments, limits_json(machine), limits_text(machine));
  return ok_status();
}

Status run_bench_codec_command(const Arguments& arguments) {
  tell_of_figures(arguments.bench_rates.seconds);
  return print_rates(arguments, bench_codec(arguments.bench_rates));
}

Status run_bench_optimizer_command(const Arguments& arguments) {
  tell_of_figures(arguments.bench_rates.seconds);
  return print_rates(arguments, bench_optimizer(arguments.bench_rates));
}

Status run_bench_exchange_command(const Arguments& arguments) {
  ExchangeBenchOptions options = arguments.bench_exchange;
  auto program = this_program();
  if (!program.ok()) return std::move(program).error();
  options.program = std::move(program).value();
  options.shape = arguments.bench_step.shape;
  options.overrides = arguments.overrides;
  tell_of(fmt::format("two peers of {} steps, in turn alone and exchanging", options.steps));
  auto bench = bench_exchange(options);
  if (!bench.ok()) return std::move(bench).error();
  print(arguments, exchange_json(bench.value()), exchange_text(bench.value()));
  return ok_status();
}

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

namespace {

std::function<void(std::uint64_t, std::uint64_t)> shown_by(ProgressBar& bar) {
  return [&bar](std::uint64_t done, std::uint64_t all) { bar.update(done, all, now()); };
}

Status run_choices(const Arguments& arguments) {
  ChoicesOptions options = arguments.choices;
  options.checkpoint = arguments.eval.checkpoint;
  options.runner = arguments.eval.runner;
  const Console notes = console();
  ProgressBar bar(notes.notes, notes.columns, now(), "questions");
  options.progress = shown_by(bar);
  auto evaluated = evaluate_choices(options);
  bar.clear();
  if (!evaluated.ok()) return std::move(evaluated).error();
  const ChoicesReport& report = evaluated.value();
  const double whole = report.accuracy(), per_byte = report.accuracy_per_byte();
  const double whole_error = report.standard_error(whole);
  const double per_byte_error = report.standard_error(per_byte);
  print(
      arguments,
      {{"acc", whole},
       {"acc_stderr", whole_error},
       {"acc_norm", per_byte},
       {"acc_norm_stderr", per_byte_error},
       {"questions", report.questions},
       {"endings", report.endings}},
      fmt::format("acc {:.4f} +- {:.4f}  acc_norm {:.4f} +- {:.4f}  ({} questions, {} endings)\n",
                  whole, whole_error, per_byte, per_byte_error, report.questions, report.endings));
  return ok_status();
}

}  // namespace

Status run_eval_command(const Arguments& arguments) {
  if (!arguments.choices.file.empty()) return run_choices(arguments);
  if (arguments.eval.data.empty()) {
    return Error(ErrorCode::kInvalidConfig, "eval needs --data SHARDS or --choices FILE");
  }
  EvalOptions options = arguments.eval;
  const Console notes = console();
  ProgressBar bar(notes.notes, notes.columns, now(), "tokens");
  options.progress = shown_by(bar);
  auto evaluated = evaluate(options);
  bar.clear();
  if (!evaluated.ok()) return std::move(evaluated).error();
  const EvalReport& report = evaluated.value();
  const bool bytes = report.bytes > 0;
  const double bits = bytes ? report.bits_per_byte() : report.bits_per_token();
  print(
      arguments,
      {{"loss", report.loss},
       {"perplexity", report.perplexity()},
       {bytes ? "bits_per_byte" : "bits_per_token", bits},
       {"tokens", report.tokens}},
      fmt::format("loss {:.4f}  perplexity {:.3f}  bits per {} {:.4f}  ({} tokens)\n", report.loss,
                  report.perplexity(), bytes ? "byte" : "token", bits, report.tokens));
  return ok_status();
}

Status run_generate_command(const Arguments& arguments) {
  Status outcome =
      generate(arguments.generate, [](std::string_view text) { std::cout << text << std::flush; });
  if (outcome.ok()) std::cout << '\n';
  return outcome;
}

Status run_average_command(const Arguments& arguments) {
  // It is an input, where OUT was forgotten.
  Status free = check_absent(arguments.average.out,
                             "another name; the average is written to OUT, which comes before the "
                             "checkpoints");
  if (!free.ok()) return free;
  auto report = average(arguments.average);
  if (!report.ok()) return std::move(report).error();
  std::cout << fmt::format("{}: {}, {} tokens\n", arguments.average.out.string(),
                           counted(report.value().contributors.size(), "checkpoint"),
                           report.value().tokens);
  return ok_status();
}

namespace {

// `why`: empty where there is one.
void tell_no_tokenizer(std::string_view done, const std::string& why) {
  if (why.empty()) return;
  std::cerr << printable(fmt::format("no tokenizer was {}: {}\n", done, why));
}

}  // namespace

Status run_export_command(const Arguments& arguments) {
  ExportOptions options = arguments.export_model;
  options.type = type_of(arguments);
  auto report = export_model(options);
  if (!report.ok()) return std::move(report).error();
  tell_no_tokenizer("exported", report.value().no_tokenizer);
  std::cout << fmt::format("{}: {} parameters as {}, {} bytes in {} file{}\n", options.out.string(),
                           report.value().parameters, to_string(options.type), report.value().bytes,
                           report.value().files, report.value().files == 1 ? "" : "s");
  return ok_status();
}

Status run_consolidate_command(const Arguments& arguments) {
  ConsolidateOptions options = arguments.consolidate;
  options.type = type_of(arguments);
  auto report = consolidate(options);
  if (!report.ok()) return std::move(report).error();
  tell_no_tokenizer("exported", report.value().exported.no_tokenizer);
  std::cout << printable(consolidate_text(report.value()));
  return ok_status();
}

Status run_import_command(const Arguments& arguments) {
  const ImportOptions& options = arguments.import_model;
  auto report = import_model(options);
  if (!report.ok()) return std::move(report).error();
  tell_no_tokenizer("imported", report.value().no_tokenizer);
  std::cout << fmt::format(
      "{0}: {1} parameters. To train on from it, give every peer this file, and say in its "
      "configuration:\n\n[run]\nstart = {3}\n\n{2}",
      options.out.string(), report.value().parameters, report.value().section,
      in_quotes(options.out.string()));
  if (const auto& file = report.value().tokenizer_file; !file.empty()) {
    std::cout << fmt::format(
        "\nIts tokenizer is {0}: keep the two side by side, and make the data by it, 'starling "
        "prepare TEXT --out DIR --tokenizer {0}'.\n",
        file.string());
  }
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
        "{0}: a secret. Bring it to every peer by a safe way, and set trust.secret = {1} there.\n",
        path, in_quotes(path));
    return ok_status();
  }
  auto identity = load_or_make_identity(arguments.key_file);
  if (!identity.ok()) return std::move(identity).error();
  std::cout << fmt::format(
      "{0}\n"
      "  is the public key of {1}, which is to stay secret. Set trust.key = {2} on its "
      "machine.\n"
      "  Others let it in by that line in the file trust.allow, and join through it by\n"
      "  gossip.seeds = [\"{0}@HOST:PORT\"].\n",
      gossip::to_string(identity.value().key()), path, in_quotes(path));
  return ok_status();
}

Status run_config_command(const Arguments&) {
  std::cout << describe_config();
  return ok_status();
}

Status run_completion_command(const Arguments& arguments) {
  const auto complete = arguments.shell == "zsh" ? zsh_completion : bash_completion;
  std::cout << complete(arguments.program, config_keys());
  return ok_status();
}

Status run_manual_command(const Arguments& arguments) {
  std::cout << manual_page(arguments.program, STARLING_VERSION);
  return ok_status();
}

}  // namespace starling::peer
