#include "peer/commands/text_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "peer/config/config_text.h"
#include "peer/files/text_file.h"
#include "peer/files/tokenizer_file.h"
#include "peer/io/clock.h"
#include "peer/io/human_text.h"
#include "peer/io/progress_bar.h"

namespace starling::peer {

namespace {

// Batches may want longer sequences than so short a text has.
constexpr std::uint64_t kShortSplit = 4096;

std::string note_on_length(std::uint64_t validation_tokens) {
  if (validation_tokens == 0 || validation_tokens >= kShortSplit) return "";
  return fmt::format(
      "little is held out: to measure on it, batch.tokens must be below {}, or "
      "--validation-fraction larger\n",
      validation_tokens);
}

}  // namespace

Status run_prepare(PrepareOptions options, const std::string& tokenizer, const Console& console) {
  auto file = open_tokenizer(tokenizer);
  if (!file.ok()) return std::move(file).error();
  auto texts = text_files(options.texts);
  if (!texts.ok()) return std::move(texts).error();
  options.texts = std::move(texts).value();
  const Instant start = now();
  ProgressBar bar(console.notes, console.columns, start);
  options.progress = [&bar](std::uint64_t done, std::uint64_t all) {
    bar.update(done, all, now());
  };
  auto prepared = prepare(options, file.value());
  bar.clear();
  if (!prepared.ok()) return std::move(prepared).error();
  const PrepareReport& report = prepared.value();
  const double seconds = seconds_since(start);
  if (report.first_invalid) {
    console.notes << fmt::format(
        "starling: {} bytes are no UTF-8, the first in {} at offset {}. If a text has another "
        "encoding, convert it first (iconv -t UTF-8)\n",
        report.invalid_bytes, printable(report.first_invalid->file.string()),
        report.first_invalid->offset);
  }
  const bool holds_out = options.validation_fraction > 0;
  console.out << fmt::format(
      "{} bytes of text: {} tokens to train on, {} held out, in {}; set model.vocabulary to {} or "
      "more ({} and {} documents, {:.1f} s, {:.1f} MB/s)\n"
      "[data]\ntrain = [{}]\n{}{}",
      report.text_bytes, report.train.tokens, report.validation.tokens,
      printable(options.out.string()), file.value().tokenizer->vocabulary(), report.train.documents,
      report.validation.documents, seconds,
      static_cast<double>(report.text_bytes) / 1e6 / std::max(seconds, 1e-3),
      in_quotes((options.out / "train").string()),
      holds_out
          ? fmt::format("validation = [{}]\n", in_quotes((options.out / "validation").string()))
          : std::string(),
      note_on_length(report.validation.tokens));
  return ok_status();
}

Status run_tokenizer_training(TokenizerTrainingOptions options, const Console& console) {
  auto texts = text_files(options.texts);
  if (!texts.ok()) return std::move(texts).error();
  options.texts = std::move(texts).value();
  ProgressBar bar(console.notes, console.columns, now());
  options.progress = [&bar](std::uint64_t done, std::uint64_t all) {
    bar.update(done, all, now());
  };
  options.sampled = [&](std::uint64_t sample, std::uint64_t all) {
    bar.clear();
    console.notes << fmt::format(
        "learning {} tokens from {} of {} of text; this may take minutes\n",
        options.training.vocabulary, human_bytes(sample), human_bytes(all));
  };
  auto trained = train_tokenizer(options);
  bar.clear();
  if (!trained.ok()) return std::move(trained).error();
  console.out << fmt::format(
      "{}: {} tokens, named {}; use it with: starling prepare --tokenizer "
      "{}\n",
      printable(trained.value().file.string()), options.training.vocabulary, trained.value().name,
      printable(trained.value().file.string()));
  return ok_status();
}

}  // namespace starling::peer
