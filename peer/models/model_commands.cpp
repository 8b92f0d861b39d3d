#include "peer/models/model_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/assert.h"
#include "model/tokenizers/tokenizer.h"
#include "peer/files/checkpoint.h"
#include "peer/files/checkpoint_parts.h"
#include "peer/files/checkpoint_store.h"
#include "peer/files/checkpoint_write.h"
#include "peer/files/dataset.h"
#include "peer/files/run_folder.h"
#include "peer/files/tokenizer_file.h"
#include "peer/io/file_io.h"
#include "peer/io/human_text.h"

namespace starling::peer {

namespace {

Status check_alike(std::span<const CheckpointFile> files) {
  const CheckpointHeader& first = files.front().header();
  for (const CheckpointFile& file : files.subspan(1)) {
    const CheckpointHeader& other = file.header();
    if (other.digests.layout == first.digests.layout) continue;
    return Error(ErrorCode::kIncompatible, fmt::format("{} ({}) and {} ({}) hold different models",
                                                       files.front().path().string(), first.title,
                                                       file.path().string(), other.title));
  }
  return ok_status();
}

Result<PeerConfig> config_inside(const CheckpointFile& file) {
  auto text = read_config(file);
  if (!text.ok()) return naming(std::move(text).error(), file.path());
  auto config = parse_config(text.value(), file.path().string(), {}, ConfigUse::kStored);
  if (!config.ok()) return std::move(config).error().with_context("configuration inside");
  return config;
}

// Of one run that began from the same weights; or what tells them apart.
std::string difference(const CheckpointFile& first, const RunConfig& run,
                       const CheckpointFile& second, const RunConfig& other) {
  if (run.name != other.name) return fmt::format("run.name {} and {}", run.name, other.name);
  if (first.header().digests.run != second.header().digests.run) {
    return "run.start of other weights";
  }
  if (!run.start.empty() || run.seed == other.seed) return "";
  return fmt::format("run.seed {} and {}", run.seed, other.seed);
}

// Weights that began apart have nothing in common that a mean would keep.
Status check_one_run(std::span<const CheckpointFile> files) {
  auto first = config_inside(files.front());
  if (!first.ok()) return std::move(first).error();
  for (const CheckpointFile& file : files.subspan(1)) {
    auto other = config_inside(file);
    if (!other.ok()) return std::move(other).error();
    const std::string apart = difference(files.front(), first.value().run, file, other.value().run);
    if (apart.empty()) continue;
    return Error(ErrorCode::kIncompatible,
                 fmt::format("{} and {} are of different runs ({}): their average would be worse "
                             "than either; --any-run makes it all the same",
                             files.front().path().string(), file.path().string(), apart));
  }
  return ok_status();
}

std::vector<double> shares_of(std::span<const CheckpointFile> files, bool by_tokens) {
  std::vector<double> shares;
  double sum = 0;
  for (const CheckpointFile& file : files) {
    shares.push_back(by_tokens ? static_cast<double>(file.header().tokens) : 1.0);
    sum += shares.back();
  }
  for (double& share : shares) share /= sum;
  return shares;
}

Result<std::vector<float>> mean_of(std::span<const CheckpointFile> files, std::string_view section,
                                   std::span<const double> shares) {
  const auto bytes = files.front().section_bytes(section);
  if (!bytes) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("{} has no section \"{}\"", files.front().path().string(), section));
  }
  std::vector<float> values(*bytes / sizeof(float));
  std::vector<double> sums(values.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    Status read = files[i].read(section, std::as_writable_bytes(std::span(values)));
    if (!read.ok()) return naming(std::move(read).error(), files[i].path());
    for (std::size_t k = 0; k < values.size(); ++k) sums[k] += shares[i] * double{values[k]};
  }
  std::transform(sums.begin(), sums.end(), values.begin(),
                 [](double sum) { return static_cast<float>(sum); });
  return values;
}

Result<std::vector<CheckpointFile>> open_all(std::span<const std::filesystem::path> paths) {
  std::vector<CheckpointFile> files;
  for (const std::filesystem::path& path : paths) {
    auto file = open_checkpoint(path);
    if (!file.ok()) return naming(std::move(file).error(), path);
    files.push_back(std::move(file).value());
  }
  return files;
}

std::uint64_t text_bytes(const model::Tokenizer& tokenizer, std::span<const std::int32_t> tokens) {
  std::uint64_t bytes = 0;
  for (const std::int32_t token : tokens) bytes += tokenizer.text_of(token).size();
  return bytes;
}

// The one tokenizer of all inputs that name one; empty if none does.
Result<std::string> common_tokenizer(std::span<const CheckpointFile> files) {
  std::string common;
  const CheckpointFile* first = nullptr;  // that names it
  for (const CheckpointFile& file : files) {
    auto name = read_tokenizer_name(file);
    if (!name.ok()) return naming(std::move(name).error(), file.path());
    if (name.value().empty() || name.value() == common) continue;
    if (first != nullptr) {
      return Error(ErrorCode::kIncompatible,
                   fmt::format("{} was trained with tokenizer '{}', but {} with '{}': the same "
                               "token means different things to them",
                               first->path().string(), common, file.path().string(), name.value()));
    }
    common = std::move(name).value();
    first = &file;
  }
  return common;
}

// Puts the file of this tokenizer, if any input has it, beside the average.
Status keep_common_tokenizer(std::span<const CheckpointFile> files, const PeerConfig& config,
                             const std::string& name, const std::filesystem::path& out) {
  if (name.empty()) return ok_status();
  for (const CheckpointFile& file : files) {
    auto found = tokenizer_of_model(config, {name, file.path().parent_path()}, "");
    if (!found.ok()) continue;
    auto kept = keep_beside_checkpoint(found.value(), out.parent_path());
    return kept.ok() ? ok_status() : Status(std::move(kept).error());
  }
  return ok_status();  // whoever needs it hears what is missing
}

// So many of one batch that at most a fiftieth of the windows that lie side by side is left over.
std::int64_t sequences_that_fit(const Dataset& data, const model::BatchShape& shape) {
  const auto windows = static_cast<std::int64_t>(data.windows_apart());
  std::int64_t sequences = std::min(shape.sequences, windows);
  while (windows % sequences * 50 > windows) --sequences;
  return sequences;
}

// That of the text behind the tokens; empty where it is not beside the shards.
Result<std::optional<TokenizerFile>> text_tokenizer(std::span<const std::string> shards,
                                                    const Dataset& data) {
  auto found = tokenizer_of_shards(shards);
  if (!found.ok()) return std::optional<TokenizerFile>();
  // Whoever put it there may have taken the wrong one.
  const auto known = static_cast<std::uint32_t>(found.value().tokenizer->vocabulary());
  if (data.vocabulary() > known) {
    return Error(ErrorCode::kIncompatible,
                 fmt::format("{} hold ids below {}, but the tokenizer beside them has {} tokens: "
                             "put theirs there, or none",
                             shards.front(), data.vocabulary(), known));
  }
  return std::optional(std::move(found).value());
}

struct PassSizes {
  std::size_t batch = 0, pass = 0;  // tokens; of a batch, so many are computed at a time
};

EvalReport measure(ModelRunner& runner, const ValidationBatches& held_out, const PassSizes& sizes,
                   const std::optional<TokenizerFile>& tokenizer, const EvalOptions& options) {
  const std::uint64_t tokens = std::uint64_t{held_out.size()} * sizes.batch;
  std::vector<std::int32_t> inputs(sizes.batch), targets(sizes.batch);
  double sum = 0;
  std::uint64_t bytes = 0;
  for (std::uint32_t batch = 0; batch < held_out.size(); ++batch) {
    held_out.copy(batch, inputs, targets);
    if (tokenizer) bytes += text_bytes(*tokenizer->tokenizer, targets);
    for (std::size_t first = 0; first < sizes.batch; first += sizes.pass) {
      runner.llama.forward(runner.weights(), {std::span(inputs).subspan(first, sizes.pass),
                                              std::span(targets).subspan(first, sizes.pass)});
      sum += runner.llama.mean_loss() * static_cast<double>(sizes.pass);
    }
    if (options.progress) options.progress((std::uint64_t{batch} + 1) * sizes.batch, tokens);
  }
  return {.loss = sum / static_cast<double>(tokens), .tokens = tokens, .bytes = bytes};
}

}  // namespace

double EvalReport::perplexity() const { return std::exp(loss); }
double EvalReport::bits_per_token() const { return loss / std::numbers::ln2; }
double EvalReport::bits_per_byte() const {
  STARLING_ASSERT(bytes > 0);
  return bits_per_token() * static_cast<double>(tokens) / static_cast<double>(bytes);
}

Result<EvalReport> evaluate(const EvalOptions& options) {
  auto stored = open_model(options.checkpoint);
  if (!stored.ok()) return std::move(stored).error();
  if (Status fits = check_tokenizer(stored.value(), options.data); !fits.ok()) {
    return std::move(fits).error();
  }
  const PeerConfig& config = stored.value().config;
  model::BatchShape shape = config.batch;
  auto data =
      Dataset::open(options.data, {.vocabulary = config.model.vocabulary, .tokens = shape.tokens});
  if (!data.ok()) return std::move(data).error();
  const bool everything =
      options.batches == 0 ||
      options.batches >= ValidationBatches::of_all(data.value(), shape.sequences).size();
  if (everything) shape.sequences = sequences_that_fit(data.value(), shape);
  auto tokenizer = text_tokenizer(options.data, data.value());
  if (!tokenizer.ok()) return std::move(tokenizer).error();
  auto runner =
      load_runner(stored.value(), options.runner, shape.tokens, passes_to_try(config, shape));
  if (!runner.ok()) return std::move(runner).error();
  const ValidationBatches held_out =
      everything ? ValidationBatches::of_all(data.value(), shape.sequences)
                 : ValidationBatches(data.value(), shape.sequences, options.batches);
  const PassSizes sizes{.batch = static_cast<std::size_t>(shape.sequences * shape.tokens),
                        .pass = static_cast<std::size_t>(runner.value().sequences * shape.tokens)};
  return measure(runner.value(), held_out, sizes, tokenizer.value(), options);
}

Result<AverageReport> average(const AverageOptions& options) {
  if (options.inputs.empty()) return Error(ErrorCode::kInvalidConfig, "nothing to average");
  std::vector<std::filesystem::path> paths;
  for (const std::filesystem::path& input : options.inputs) {
    const auto peers = trained_peers_in(input);
    paths.insert(paths.end(), peers.begin(), peers.end());
  }
  auto files = open_all(paths);
  if (!files.ok()) return std::move(files).error();
  const std::span<const CheckpointFile> inputs = files.value();
  // One peer's checkpoints of several times are an average that somebody may want; one file twice
  // is a slip.
  std::vector<std::filesystem::path> opened;
  for (const CheckpointFile& file : inputs) opened.push_back(file.path());
  Status once = check_named_once(opened);
  if (!once.ok()) return std::move(once).error();
  Status alike = check_alike(inputs);
  if (!alike.ok()) return std::move(alike).error();
  if (!options.any_run) {
    Status together = check_one_run(inputs);
    if (!together.ok()) return std::move(together).error();
  }

  AverageReport report;
  for (const CheckpointFile& file : inputs) report.tokens += file.header().tokens;
  if (options.by_tokens && report.tokens == 0) {
    return Error(ErrorCode::kInvalidConfig, "no input was trained, so none weighs more by tokens");
  }
  auto config = read_config(inputs.front());
  if (!config.ok()) return naming(std::move(config).error(), inputs.front().path());
  auto parsed = config_inside(inputs.front());
  if (!parsed.ok()) return std::move(parsed).error();
  auto tokenizer = common_tokenizer(inputs);
  if (!tokenizer.ok()) return std::move(tokenizer).error();
  const std::vector<double> shares = shares_of(inputs, options.by_tokens);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const CheckpointHeader& header = inputs[i].header();
    report.contributors.push_back(
        {paths[i], header.peer, header.step, header.tokens, header.title, shares[i]});
  }
  auto fast = mean_of(inputs, section_of(WeightsKind::kFast), shares);
  if (!fast.ok()) return std::move(fast).error();
  std::vector<Section> sections = {
      {std::string(section_of(WeightsKind::kFast)), std::as_bytes(std::span(fast.value()))},
      {"config", std::as_bytes(std::span(config.value()))}};
  std::vector<float> slow;
  if (std::all_of(inputs.begin(), inputs.end(), [](const CheckpointFile& file) {
        return file.section_bytes(section_of(WeightsKind::kSlow)).has_value();
      })) {
    auto mean = mean_of(inputs, section_of(WeightsKind::kSlow), shares);
    if (!mean.ok()) return std::move(mean).error();
    slow = std::move(mean).value();
    sections.push_back(
        {std::string(section_of(WeightsKind::kSlow)), std::as_bytes(std::span(slow))});
  }
  if (!tokenizer.value().empty()) sections.push_back(tokenizer_section(tokenizer.value()));
  CheckpointHeader header = inputs.front().header();
  header.peer = 0;  // of nobody: no peer goes on from it
  header.incarnation = 0;
  header.tokens = report.tokens;
  header.title =
      fmt::format("average of {}; {}", counted(inputs.size(), "checkpoint"), header.title);
  Status written = write_checkpoint(options.out, header, sections);
  if (written.ok()) {
    written = keep_common_tokenizer(inputs, parsed.value(), tokenizer.value(), options.out);
  }
  if (!written.ok()) return std::move(written).error().with_context("average");
  return report;
}

}  // namespace starling::peer
