#include "peer/files/tokenizer_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <system_error>
#include <utility>

#include "model/tokenizers/sentencepiece_tokenizer.h"
#include "model/tokenizers/unicode.h"
#include "peer/files/text_file.h"
#include "peer/files/tokenizer_file.h"
#include "peer/io/file_io.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;

// Whole lines as long as there are any; a line without end is cut between characters.
std::size_t line_cut(std::string_view text) {
  const std::size_t line_end = text.rfind('\n');
  if (line_end != std::string_view::npos) return line_end + 1;
  return std::max<std::size_t>(1, model::complete_characters(text));
}

void add_lines(std::string_view text, LineSample& sample) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    sample.add(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

Result<LineSample> sample_of(const TokenizerTrainingOptions& options) {
  auto sizes = text_sizes(options.texts, options.text_field);
  if (!sizes.ok()) return std::move(sizes).error();
  const std::uint64_t all =
      std::accumulate(sizes.value().begin(), sizes.value().end(), std::uint64_t{0});
  std::uint64_t before = 0;
  LineSample sample(options.sample_bytes_max);
  for (const fs::path& path : options.texts) {
    auto text = TextFile::open(path, TextFile::kNothingHeldOut, options.text_field);
    if (!text.ok()) return std::move(text).error();
    for (;;) {
      auto piece = text.value().next(line_cut);
      if (!piece.ok()) return std::move(piece).error();
      if (!piece.value()) break;
      add_lines(piece.value()->text, sample);
      if (options.progress) options.progress(before + text.value().done(), all);
    }
    before += text.value().done();
  }
  return sample;
}

}  // namespace

LineSample::LineSample(std::uint64_t bytes_max) : bytes_max_(bytes_max), rng_(1) {}

void LineSample::add(std::string_view line) {
  bytes_seen_ += line.size();
  if (line.empty() || line.find('\0') != std::string_view::npos ||
      model::find_invalid(line) < line.size()) {
    return;
  }
  while (!line.empty()) {
    std::size_t end = std::min(line.size(), model::kSentenceBytesMax);
    if (end < line.size()) {
      const std::size_t space = line.substr(0, end).rfind(' ');
      const bool at_space = space != std::string_view::npos && space > 0;
      end = at_space ? space : model::complete_characters(line.substr(0, end));
    }
    keep(line.substr(0, end));
    line.remove_prefix(end);
  }
}

void LineSample::keep(std::string_view sentence) {
  if (chance_ < 1 && !rng_.chance(chance_)) return;
  sentences_.emplace_back(sentence);
  bytes_ += sentence.size();
  while (bytes_ > bytes_max_) {  // every second one goes, by chance
    chance_ /= 2;
    std::erase_if(sentences_, [this](const std::string&) { return rng_.chance(0.5); });
    bytes_ = 0;
    for (const std::string& kept : sentences_) bytes_ += kept.size();
  }
}

Result<TokenizerTrainingReport> train_tokenizer(const TokenizerTrainingOptions& options) {
  std::error_code unknown;
  fs::path out = options.out;
  if (fs::is_directory(out, unknown) || !out.has_filename()) out /= kTokenizerModelName;
  if (Status free = check_absent(out, "another output"); !free.ok()) return std::move(free).error();
  auto sample = sample_of(options);
  if (!sample.ok()) return std::move(sample).error();
  if (options.sampled) options.sampled(sample.value().bytes(), sample.value().bytes_seen());
  auto file = model::train_sentencepiece(sample.value().sentences(), options.training);
  if (!file.ok()) {
    if (!sample.value().thinned()) return std::move(file).error();
    return std::move(file).error().with_context(
        fmt::format("--sample-bytes {} left {} of {} bytes of text", options.sample_bytes_max,
                    sample.value().bytes(), sample.value().bytes_seen()));
  }
  // What we write we must be able to read.
  auto tokenizer = model::read_tokenizer_model(file.value());
  if (!tokenizer.ok()) return std::move(tokenizer).error();
  if (const fs::path folder = out.parent_path(); !folder.empty()) {
    if (Status made = create_folder(folder); !made.ok()) return std::move(made).error();
  }
  if (Status written = replace_file(out, file.value()); !written.ok()) {
    return std::move(written).error();
  }
  return TokenizerTrainingReport{out, std::string(tokenizer.value()->name())};
}

}  // namespace starling::peer
