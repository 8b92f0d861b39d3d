#include "peer/files/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "model/tokenizers/tokenizer.h"
#include "peer/files/dataset.h"
#include "peer/files/encode_crew.h"
#include "peer/files/text_file.h"
#include "peer/files/token_shard.h"
#include "peer/io/file_io.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLockName = ".lock";  // of an output that grows

// Numbered shards in one folder; a new one begins when the last is full.
class ShardSeries {
 public:
  ShardSeries(fs::path folder, ShardHeader header, std::uint64_t shard_tokens_max)
      : folder_(std::move(folder)), header_(std::move(header)), tokens_max_(shard_tokens_max) {}

  Status append(std::span<const std::int32_t> tokens) {
    while (!tokens.empty()) {
      if (!writer_.has_value()) {
        auto started = start();
        if (!started.ok()) return started;
      }
      const auto room = static_cast<std::size_t>(tokens_max_ - writer_->tokens());
      const auto part = tokens.first(std::min(room, tokens.size()));
      auto written = writer_->append(part);
      if (!written.ok()) return written;
      tokens_ += part.size();
      tokens = tokens.subspan(part.size());
      if (writer_->tokens() == tokens_max_) {
        auto finished = finish();
        if (!finished.ok()) return finished;
      }
    }
    return ok_status();
  }

  Status finish() {
    if (!writer_.has_value()) return ok_status();
    auto finished = writer_->finish();
    writer_.reset();
    return finished;
  }

  std::uint64_t tokens() const noexcept { return tokens_; }
  std::uint32_t shards() const noexcept { return shards_; }

 private:
  Status start() {
    auto writer =
        ShardWriter::create(folder_ / fmt::format("{:05}{}", shards_, kShardExtension), header_);
    if (!writer.ok()) return std::move(writer).error();
    writer_.emplace(std::move(writer).value());
    ++shards_;
    return ok_status();
  }

  fs::path folder_;
  ShardHeader header_;
  std::uint64_t tokens_max_;
  std::optional<ShardWriter> writer_;
  std::uint64_t tokens_ = 0;
  std::uint32_t shards_ = 0;
};

// One of the two outputs while it grows, beside its final place.
struct SplitOutput {
  fs::path folder, beside;
  ShardSeries shards;
  std::uint64_t documents = 0;
  bool placed = false;  // in `folder`, by this object

  SplitOutput(fs::path place, const ShardHeader& header, std::uint64_t shard_tokens_max)
      : folder(std::move(place)),
        beside(folder.string() + ".tmp"),
        shards(beside, header, shard_tokens_max) {}
  Status put_in_place() {
    auto synced = sync_folder(beside);
    if (!synced.ok()) return synced;
    std::error_code failure;
    fs::rename(beside, folder, failure);
    if (failure) return io_error("rename to", folder, failure.value());
    placed = true;
    return sync_folder(folder.parent_path());
  }
  PrepareReport::Split report() const { return {shards.tokens(), documents, shards.shards()}; }
};

Status make_empty_folder(const fs::path& folder) {
  std::error_code failure;
  fs::remove_all(folder, failure);
  if (failure) return io_error("clear", folder, failure.value());
  return create_folder(folder);
}

Status check(const PrepareOptions& options) {
  if (!(options.validation_fraction >= 0 && options.validation_fraction <= 0.5)) {
    return Error(
        ErrorCode::kInvalidConfig,
        fmt::format("--validation-fraction {} is outside [0, 0.5]", options.validation_fraction));
  }
  if (options.shard_tokens_max == 0) {
    return Error(ErrorCode::kInvalidConfig, "a shard must be allowed at least one token");
  }
  std::vector<std::string> prepared;
  for (const std::string split : {"train", "validation"}) {
    if (split == "validation" && options.validation_fraction == 0) continue;
    auto there = path_exists(options.out / split);
    if (!there.ok()) return std::move(there).error();
    if (there.value()) prepared.push_back("'" + split + "'");
  }
  if (prepared.empty()) return ok_status();
  return Error(
      ErrorCode::kInvalidConfig,
      fmt::format("{} is already prepared: remove its folder{} {} first, or choose another "
                  "output",
                  options.out.string(), prepared.size() > 1 ? "s" : "",
                  fmt::join(prepared, " and ")));
}

// Texts -> tasks -> the two outputs.
class Preparation {
 public:
  Preparation(const PrepareOptions& options, const model::Tokenizer& tokenizer,
              const ShardHeader& header)
      : options_(options),
        tokenizer_(tokenizer),
        crew_(tokenizer, options.threads),
        train_(options.out / "train", header, options.shard_tokens_max),
        validation_(options.out / "validation", header, options.shard_tokens_max) {}

  // What is not finished is taken away again: on a full disk nothing else makes room.
  ~Preparation() {
    if (!started_ || finished_) return;
    std::error_code ignored;
    for (const SplitOutput* split : {&train_, &validation_}) {
      fs::remove_all(split->beside, ignored);
      if (split->placed) fs::remove_all(split->folder, ignored);
    }
    fs::remove(options_.out / kLockName, ignored);
    if (made_out_) fs::remove(options_.out, ignored);  // unless others have put something there
  }
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  Status start() {
    auto there = path_exists(options_.out);
    if (!there.ok()) return std::move(there).error();
    if (Status made = create_folder(options_.out); !made.ok()) return made;
    auto lock = lock_file(options_.out / kLockName);
    if (!lock.ok() && lock.error().code() == ErrorCode::kUnavailable) {
      return Error(ErrorCode::kUnavailable,
                   fmt::format("another process prepares {} already: let it end, or choose another "
                               "output",
                               options_.out.string()));
    }
    if (!lock.ok()) return std::move(lock).error();
    lock_ = std::move(lock).value();
    started_ = true;
    made_out_ = !there.value();
    for (const SplitOutput* split : outputs()) {
      auto created = make_empty_folder(split->beside);
      if (!created.ok()) return created;
    }
    return ok_status();
  }

  // Its piece of all the texts begins `before` bytes into them.
  Status take_file(std::size_t file, std::uint64_t before, std::uint64_t held_out_from) {
    auto text = TextFile::open(options_.texts[file], held_out_from, options_.text_field);
    if (!text.ok()) return std::move(text).error();
    const TextFile::Cut cut = [this](std::string_view piece) {
      const std::size_t bytes = tokenizer_.cut(piece);
      return bytes > 0 ? bytes : std::max<std::size_t>(1, model::complete_characters(piece));
    };
    for (;;) {
      auto piece = text.value().next(cut);
      if (!piece.ok()) return std::move(piece).error();
      if (!piece.value()) break;
      if (Status taken = take_piece(file, *piece.value()); !taken.ok()) return taken;
      if (options_.progress) options_.progress(before + text.value().done(), all_);
    }
    return flush();
  }

  Status finish(const TokenizerFile& tokenizer) {
    for (SplitOutput* split : outputs()) {
      auto finished = split->shards.finish();
      if (!finished.ok()) return finished;
      auto kept = keep_tokenizer(tokenizer, split->beside);
      if (!kept.ok()) return kept;
    }
    for (SplitOutput* split : outputs()) {
      auto placed = split->put_in_place();
      if (!placed.ok()) return placed;
    }
    finished_ = true;
    std::error_code ignored;
    fs::remove(options_.out / kLockName, ignored);
    return ok_status();
  }

  void expect(std::uint64_t bytes) { all_ = report_.text_bytes = bytes; }
  PrepareReport report() const {
    PrepareReport report = report_;
    report.train = train_.report();
    report.validation = validation_.report();
    return report;
  }

 private:
  // Train last: the folder that marks a finished job appears at the end.
  std::vector<SplitOutput*> outputs() {
    if (options_.validation_fraction == 0) return {&train_};
    return {&validation_, &train_};
  }
  Status take_piece(std::size_t file, const TextPiece& piece) {
    SplitOutput& split = piece.held_out ? validation_ : train_;
    const bool fits = !tasks_.empty() && tasks_.back().held_out == piece.held_out &&
                      tasks_.back().bytes + piece.text.size() <= TextFile::kPieceBytesMax;
    if (!fits) {
      if (tasks_.size() == crew_.threads()) {
        if (Status done = flush(); !done.ok()) return done;
      }
      tasks_.emplace_back();
      tasks_.back().file = file;
      tasks_.back().held_out = piece.held_out;
    }
    EncodeTask& task = tasks_.back();
    task.bytes += piece.text.size();
    task.parts.push_back({.text = std::string(piece.text),
                          .begins = piece.begins,
                          .ends = piece.ends,
                          .follows = split.documents > 0,
                          .offset = piece.offset});
    split.documents += piece.begins ? 1 : 0;
    return ok_status();
  }

  Status flush() {
    crew_.encode(tasks_);
    for (const EncodeTask& task : tasks_) {
      auto appended = (task.held_out ? validation_ : train_).shards.append(task.tokens);
      if (!appended.ok()) return appended;
      report_.invalid_bytes += task.invalid.count;
      if (task.invalid.first && !report_.first_invalid) {
        report_.first_invalid = {options_.texts[task.file], *task.invalid.first};
      }
    }
    tasks_.clear();
    return ok_status();
  }

  const PrepareOptions& options_;
  const model::Tokenizer& tokenizer_;
  EncodeCrew crew_;
  SplitOutput train_, validation_;
  FileHandle lock_;  // of the output
  bool started_ = false, made_out_ = false, finished_ = false;
  std::vector<EncodeTask> tasks_;  // at most one for each thread
  std::uint64_t all_ = 0;
  PrepareReport report_;
};

Error too_short(const PrepareOptions& options, std::uint64_t bytes) {
  if (options.validation_fraction == 0) {
    return Error(ErrorCode::kInvalidConfig, fmt::format("{} with {} bytes of text is too short",
                                                        options.texts.front().string(), bytes));
  }
  return Error(ErrorCode::kInvalidConfig,
               fmt::format("{} with {} bytes of text is too short to train on and to hold {} of it "
                           "out: give more text, or a larger --validation-fraction (a line of JSON "
                           "is never divided)",
                           options.texts.front().string(), bytes, options.validation_fraction));
}

}  // namespace

Result<PrepareReport> prepare(const PrepareOptions& options, const TokenizerFile& file) {
  auto checked = check(options);
  if (!checked.ok()) return std::move(checked).error();
  auto measured = text_sizes(options.texts, options.text_field);
  if (!measured.ok()) return std::move(measured).error();
  const std::vector<std::uint64_t> sizes = std::move(measured).value();
  const std::uint64_t all = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  const std::uint64_t split =
      all - static_cast<std::uint64_t>(static_cast<double>(all) * options.validation_fraction);

  // Bytes per token: as few as the vocabulary allows.
  const model::Tokenizer& tokenizer = *file.tokenizer;
  const auto vocabulary = static_cast<std::uint32_t>(tokenizer.vocabulary());
  Preparation preparation(options, tokenizer,
                          {.token_bytes = vocabulary <= 65536 ? 2U : 4U,
                           .vocabulary = vocabulary,
                           .tokenizer = std::string(tokenizer.name())});
  preparation.expect(all);
  auto started = preparation.start();
  if (!started.ok()) return std::move(started).error();
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < options.texts.size(); ++i) {
    const std::uint64_t held_out_from = split > before ? split - before : 0;
    auto taken = preparation.take_file(i, before, held_out_from);
    if (!taken.ok()) return std::move(taken).error();
    before += sizes[i];
  }
  const PrepareReport report = preparation.report();
  const bool holds_out = options.validation_fraction > 0;
  if (report.train.tokens < 2 || (holds_out && report.validation.tokens < 2)) {
    return too_short(options, all);
  }
  auto finished = preparation.finish(file);
  if (!finished.ok()) return std::move(finished).error();
  return preparation.report();
}

}  // namespace starling::peer
