#include "peer/prepare.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <system_error>

#include "model/tokenizer.h"
#include "model/unicode.h"
#include "peer/dataset.h"
#include "peer/file_io.h"
#include "peer/token_shard.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

struct ByteRange {
  std::uint64_t first = 0, end = 0;
};

// A text file handed out piece by piece.
class TextReader {
 public:
  static Result<TextReader> open(const fs::path& path) {
    auto file = FileHandle::open(path, O_RDONLY);
    if (!file.ok()) return std::move(file).error();
    auto size = file_size(file.value(), path);
    if (!size.ok()) return std::move(size).error();
    return TextReader(path, std::move(file).value(), size.value());
  }

  std::uint64_t size() const noexcept { return size_; }

  // The text at the beginning of `rest`, at most kPieceBytes, cut where `tokenizer` may cut it.
  // Takes it off `rest`.
  Result<std::string_view> next(ByteRange& rest, const model::Tokenizer& tokenizer) {
    const std::uint64_t bytes = std::min<std::uint64_t>(rest.end - rest.first, kPieceBytes);
    piece_.resize(bytes);
    auto read = read_at(file_, path_, rest.first, std::as_writable_bytes(std::span(piece_)));
    if (!read.ok()) return std::move(read).error();
    std::string_view piece(piece_);
    if (rest.first + bytes < rest.end) {
      const std::size_t cut = tokenizer.cut(piece);
      piece = piece.substr(0, cut > 0 ? cut : model::complete_characters(piece));
    }
    rest.first += piece.size();
    return piece;
  }

  // The first line end at or after `offset`, if there is one within a piece and text
  // behind it; otherwise `offset`.
  Result<std::uint64_t> line_end_after(std::uint64_t offset) {
    piece_.resize(std::min<std::uint64_t>(size_ - offset, kPieceBytes));
    auto read = read_at(file_, path_, offset, std::as_writable_bytes(std::span(piece_)));
    if (!read.ok()) return std::move(read).error();
    const std::size_t line_end = piece_.find('\n');
    const std::uint64_t after = offset + line_end + 1;
    if (line_end == std::string::npos || after == size_) return offset;
    return after;
  }

 private:
  TextReader(fs::path path, FileHandle file, std::uint64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}
  fs::path path_;
  FileHandle file_;
  std::uint64_t size_;
  std::string piece_;
};

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

void count_invalid(std::string_view piece, std::uint64_t offset, PrepareReport& report) {
  for (std::size_t at = model::find_invalid(piece); at < piece.size();
       at = model::find_invalid(piece, at + 1)) {
    ++report.invalid_bytes;
    const std::uint64_t here = offset + at;
    report.first_invalid = std::min(report.first_invalid.value_or(here), here);
  }
}

// One document.
Status encode_range(TextReader& text, ByteRange range, const model::Tokenizer& tokenizer,
                    ShardSeries& shards, PrepareReport& report) {
  const bool every_byte_is_text = tokenizer.name() == model::ByteTokenizer::kName;
  const auto encoder = tokenizer.encoder(model::SpecialTokens::kAsText);
  std::vector<std::int32_t> tokens;
  if (const auto begin = tokenizer.begin_token()) tokens.push_back(*begin);
  const std::uint64_t first = range.first;
  while (range.first < range.end) {
    const std::uint64_t offset = range.first;
    auto piece = text.next(range, tokenizer);
    if (!piece.ok()) return std::move(piece).error();
    if (!every_byte_is_text) count_invalid(piece.value(), offset, report);
    if (offset == first) {
      encoder->encode(piece.value(), tokens);
    } else {
      encoder->encode_rest(piece.value(), tokens);
    }
    auto appended = shards.append(tokens);
    if (!appended.ok()) return appended;
    tokens.clear();
  }
  if (const auto end = tokenizer.end_token()) tokens.push_back(*end);
  auto appended = shards.append(tokens);
  if (!appended.ok()) return appended;
  return shards.finish();
}

Status make_empty_folder(const fs::path& folder) {
  std::error_code failure;
  fs::remove_all(folder, failure);
  if (failure) return io_error("clear", folder, failure.value());
  return create_folder(folder);
}

Status put_in_place(const fs::path& from, const fs::path& to) {
  auto synced = sync_folder(from);
  if (!synced.ok()) return synced;
  std::error_code failure;
  fs::remove_all(to, failure);
  if (failure) return io_error("replace", to, failure.value());
  fs::rename(from, to, failure);
  if (failure) return io_error("rename to", to, failure.value());
  return sync_folder(to.parent_path());
}

Status check(const PrepareOptions& options) {
  if (!(options.validation_fraction > 0 && options.validation_fraction <= 0.5)) {
    return Error(
        ErrorCode::kInvalidConfig,
        fmt::format("a validation fraction of {} is not in (0, 0.5]", options.validation_fraction));
  }
  if (options.shard_tokens_max == 0) {
    return Error(ErrorCode::kInvalidConfig, "a shard must be allowed at least one token");
  }
  if (fs::exists(options.out / "train")) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("{} is already prepared: remove its folder 'train' first, or choose "
                             "another output",
                             options.out.string()));
  }
  return ok_status();
}

}  // namespace

Result<PrepareReport> prepare(const PrepareOptions& options, const TokenizerFile& file) {
  auto checked = check(options);
  if (!checked.ok()) return std::move(checked).error();
  auto text = TextReader::open(options.text);
  if (!text.ok()) return std::move(text).error();
  const std::uint64_t size = text.value().size();
  const auto held_out =
      static_cast<std::uint64_t>(static_cast<double>(size) * options.validation_fraction);
  auto split = text.value().line_end_after(size - held_out);
  if (!split.ok()) return std::move(split).error();
  if (split.value() == 0 || split.value() == size) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("{} with its {} bytes is too short to train on and to hold {} of it "
                             "out",
                             options.text.string(), size, options.validation_fraction));
  }

  // Bytes per token: as few as the vocabulary allows.
  const model::Tokenizer& tokenizer = *file.tokenizer;
  const auto vocabulary = static_cast<std::uint32_t>(tokenizer.vocabulary());
  const ShardHeader header{.token_bytes = vocabulary <= 65536 ? 2U : 4U,
                           .vocabulary = vocabulary,
                           .tokenizer = std::string(tokenizer.name())};
  // Validation first and train last: the folder that marks a finished job appears at the end.
  PrepareReport report{.text_bytes = size};
  for (const bool train : {false, true}) {
    const fs::path folder = options.out / (train ? "train" : "validation");
    fs::path beside = folder;
    beside += ".tmp";
    auto created = make_empty_folder(beside);
    if (!created.ok()) return std::move(created).error();
    ShardSeries shards(beside, header, options.shard_tokens_max);
    const ByteRange range = train ? ByteRange{0, split.value()} : ByteRange{split.value(), size};
    auto encoded = encode_range(text.value(), range, tokenizer, shards, report);
    if (!encoded.ok()) return std::move(encoded).error();
    auto kept = keep_tokenizer(file, beside);
    if (!kept.ok()) return std::move(kept).error();
    auto placed = put_in_place(beside, folder);
    if (!placed.ok()) return std::move(placed).error();
    (train ? report.train_tokens : report.validation_tokens) = shards.tokens();
    (train ? report.train_shards : report.validation_shards) = shards.shards();
  }
  return report;
}

}  // namespace starling::peer
