#include "peer/files/text_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/assert.h"
#include "base/log.h"
#include "model/tokenizers/unicode.h"
#include "peer/io/file_io.h"
#include "peer/io/human_text.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kFormatBytes = 512;  // that tell formats apart

// Takes the text of one field out of an object without building the rest of it.
class TextField final : public nlohmann::json_sax<Json> {
 public:
  explicit TextField(std::string_view name) : name_(name) {}

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool string(string_t& value) override {
    if (depth_ == 1 && here_) text_ = std::move(value);
    return true;
  }
  bool key(string_t& name) override {
    here_ = depth_ == 1 && name == name_;
    return true;
  }
  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t byte, const std::string&, const Json::exception&) override {
    broken_at_ = byte;
    return false;
  }

  std::optional<std::string>& text() { return text_; }
  std::size_t broken_at() const { return broken_at_; }

 private:
  bool other() {
    if (depth_ == 1 && here_) text_.reset();
    return true;
  }
  bool open() {
    other();
    ++depth_;
    here_ = false;
    return true;
  }
  bool close() {
    --depth_;
    here_ = false;
    return true;
  }

  std::string_view name_;
  std::size_t depth_ = 0;
  bool here_ = false;  // the value that comes is of the field
  std::optional<std::string> text_;
  std::size_t broken_at_ = 0;
};

bool is_json_lines(fs::path path) {
  if (path.extension() == ".gz" || path.extension() == ".zst") path.replace_extension();
  return path.extension() == ".jsonl" || path.extension() == ".ndjson";
}

// From the first character on that is no space, behind the mark some editors begin a file with.
std::string_view after_space(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text;
}

// Whether the first line of a text is a whole object, and either has the field or another line like
// it behind it. One object alone, without the field, may be a file of any program, like `{}`.
bool reads_like_json_lines(std::string_view text, std::string_view field) {
  text = after_space(text);
  if (!text.starts_with('{')) return false;
  const std::string_view line = text.substr(0, text.find('\n'));
  TextField first(field);
  if (!Json::sax_parse(line, &first)) return false;
  return first.text() || after_space(text.substr(line.size())).starts_with('{');
}

// What people hand over as a text and is none, by how its files begin: training on it would go well
// and be worth nothing. Other bytes are whatever they are.
std::string_view foreign_format(std::string_view head) {
  using std::operator""sv;
  struct Format {
    std::string_view beginning, told;
    std::size_t at = 0;  // it begins there
  };
  static constexpr std::array kFormats{
      Format{"PAR1\x15"sv, "Parquet: export it as JSON lines (*.jsonl)"},
      Format{"ARROW1\0"sv, "Arrow: export it as JSON lines (*.jsonl)"},
      Format{"\x1f\x8b"sv, "packed by gzip: name it *.gz"},
      Format{"\x28\xb5\x2f\xfd"sv, "packed by zstd: name it *.zst"},
      Format{"BZh91AY&SY"sv, "packed by bzip2: unpack it, or pack it by gzip or zstd"},
      Format{"\xfd\x37zXZ\0"sv, "packed by xz: unpack it, or pack it by gzip or zstd"},
      Format{"PK\x03\x04"sv, "a zip archive, or a document in one: extract its text"},
      Format{"ustar"sv, "a tar archive: extract its files, and name their folder", 257},
      Format{"\177ELF"sv, "a program or a library of one (ELF): leave it out"},
      Format{"%PDF-"sv, "PDF: extract its text"},
      Format{"STRLTOK1"sv, "a token shard, which is prepared already"},
      Format{"\xff\xfe"sv, "UTF-16: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"},
      Format{"\xfe\xff"sv, "UTF-16: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"}};
  for (const Format& format : kFormats) {
    const std::string_view here = head.substr(std::min(format.at, head.size()));
    if (here.starts_with(format.beginning)) return format.told;
  }
  return {};
}

bool is_hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.size() > 1 && name.front() == '.';
}

struct FolderTexts {
  std::vector<fs::path> files{};
  std::uint64_t empty = 0;  // so many were left out
};

// Throws fs::filesystem_error. Empty files are ordinary in a folder that was made for something
// else, like the __init__.py of a program.
FolderTexts files_below(const fs::path& folder) {
  FolderTexts found;
  for (fs::recursive_directory_iterator item(folder), end; item != end; ++item) {
    if (is_hidden(item->path())) {
      if (item->is_directory()) item.disable_recursion_pending();
    } else if (item->is_regular_file() && item->file_size() == 0) {
      ++found.empty;
    } else if (item->is_regular_file()) {
      found.files.push_back(item->path());
    }
  }
  std::sort(found.files.begin(), found.files.end());
  return found;
}

}  // namespace

Result<std::vector<fs::path>> text_files(std::span<const fs::path> named) {
  std::vector<fs::path> files;
  for (const fs::path& path : named) {
    std::error_code failure;
    if (!fs::is_directory(path, failure)) {  // whatever is wrong with it, its reader tells
      files.push_back(path);
      continue;
    }
    try {
      const FolderTexts inside = files_below(path);
      if (inside.files.empty()) {
        return Error(
            ErrorCode::kNotFound,
            fmt::format("there {} in {}", inside.empty == 0 ? "is no file" : "are only empty files",
                        path.string()));
      }
      files.insert(files.end(), inside.files.begin(), inside.files.end());
      if (inside.empty > 0) {
        log_info("leaving out {} in {}", counted(inside.empty, "empty file"),
                 printable(path.string()));
      }
    } catch (const fs::filesystem_error& error) {
      return Error(ErrorCode::kIo, error.what());
    }
  }
  // Of a text that is taken twice the end would be held out and trained on.
  if (Status once = check_named_once(files); !once.ok()) return std::move(once).error();
  return files;
}

Result<std::vector<std::uint64_t>> text_sizes(std::span<const fs::path> texts,
                                              const std::optional<std::string>& field) {
  std::vector<std::uint64_t> sizes;
  for (const fs::path& text : texts) {
    auto readable = TextFile::open(text, TextFile::kNothingHeldOut, field);
    if (!readable.ok()) return std::move(readable).error();
    auto bytes = unpacked_bytes(text);
    if (!bytes.ok()) return std::move(bytes).error();
    if (bytes.value() == 0) {
      return Error(ErrorCode::kInvalidConfig, text.string() + " is empty");
    }
    sizes.push_back(bytes.value());
  }
  return sizes;
}

TextFile::TextFile(fs::path path, std::unique_ptr<ByteSource> source, std::uint64_t held_out_from,
                   std::string field)
    : path_(std::move(path)),
      source_(std::move(source)),
      held_out_from_(held_out_from),
      field_(std::move(field)),
      json_lines_(is_json_lines(path_)),
      held_out_(held_out_from == 0) {}

Result<TextFile> TextFile::open(const fs::path& path, std::uint64_t held_out_from,
                                const std::optional<std::string>& field) {
  auto source = open_bytes(path);
  if (!source.ok()) return std::move(source).error();
  TextFile file(path, std::move(source).value(), held_out_from,
                field.value_or(std::string(kTextField)));
  if (Status sound = file.check_format(); !sound.ok()) return std::move(sound).error();
  if (Status sound = file.check_name(field.has_value()); !sound.ok()) {
    return std::move(sound).error();
  }
  return file;
}

Status TextFile::check_format() {
  if (Status filled = fill(kFormatBytes); !filled.ok()) return filled;
  const std::string_view format = foreign_format(rest());
  if (format.empty()) return ok_status();
  return Error(ErrorCode::kIncompatible, fmt::format("{} is {}", path_.string(), format));
}

// Of JSON lines that are not known as such the braces and all other fields would be trained on.
// Only a first line that is a piece long or longer is not looked at.
Status TextFile::check_name(bool field_named) {
  if (json_lines_) return ok_status();
  if (field_named) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("{} is not read as JSON lines, which alone have the field of "
                             "--text-field: name it *.jsonl (packed, *.jsonl.gz or *.jsonl.zst), "
                             "or take it without --text-field",
                             path_.string()));
  }
  if (!after_space(rest()).starts_with('{')) return ok_status();
  if (Status filled = fill(kPieceBytesMax); !filled.ok()) return filled;
  if (!reads_like_json_lines(rest(), field_)) return ok_status();
  return Error(ErrorCode::kIncompatible,
               fmt::format("{} has lines of JSON: name it *.jsonl (packed, *.jsonl.gz or "
                           "*.jsonl.zst), so that the texts are taken out of them",
                           path_.string()));
}

Result<std::optional<TextPiece>> TextFile::next(const Cut& cut) {
  return json_lines_ ? next_line() : next_plain(cut);
}

Status TextFile::fill(std::size_t bytes) {
  if (at_end_ || rest().size() >= bytes) return ok_status();
  buffer_.erase(0, used_);
  used_ = 0;
  std::size_t there = buffer_.size();
  buffer_.resize(bytes);
  while (there < bytes && !at_end_) {
    auto read = source_->read(std::span(buffer_).subspan(there));
    if (!read.ok()) return std::move(read).error();
    at_end_ = read.value() == 0;
    there += read.value();
  }
  buffer_.resize(there);
  return ok_status();
}

void TextFile::take(std::size_t bytes) {
  used_ += bytes;
  first_ += bytes;
}

// Fixes where the document is cut once that place is near.
void TextFile::find_split() {
  if (held_out_ || split_ || held_out_from_ > first_ + kPieceBytesMax) return;
  const std::size_t wanted = held_out_from_ - first_;
  const std::size_t line_end = rest().substr(0, wanted + kPieceBytesMax).find('\n', wanted);
  const bool at_line_end =
      line_end != std::string_view::npos && (line_end + 1 < rest().size() || !at_end_);
  // Else behind the character that is there.
  const std::size_t start =
      wanted < rest().size() ? model::character_start(rest(), wanted) : wanted;
  const std::size_t end =
      start < wanted ? start + model::character_at(rest(), start).bytes : wanted;
  split_ = first_ + (at_line_end ? line_end + 1 : end);
}

Result<std::optional<TextPiece>> TextFile::next_plain(const Cut& cut) {
  // A piece, and one more to find a line end in.
  if (Status filled = fill(2 * kPieceBytesMax); !filled.ok()) return std::move(filled).error();
  if (rest().empty()) return std::optional<TextPiece>();
  find_split();
  TextPiece piece{.begins = !inside_, .held_out = held_out_, .offset = first_};
  const std::uint64_t bytes = split_ && !held_out_ ? *split_ - first_ : rest().size();
  piece.text = rest().substr(0, std::min<std::uint64_t>(bytes, kPieceBytesMax));
  const bool splits = split_ && piece.text.size() == bytes;
  piece.ends = splits || piece.text.size() == rest().size();
  if (!piece.ends) piece.text = piece.text.substr(0, cut(piece.text));
  STARLING_ASSERT(!piece.text.empty());
  inside_ = !piece.ends;
  held_out_ = held_out_ || splits;
  take(piece.text.size());
  return std::optional(piece);
}

Result<std::optional<TextPiece>> TextFile::next_line() {
  for (;;) {
    std::size_t end = rest().find('\n');
    for (std::size_t bytes = kPieceBytesMax;
         end == std::string_view::npos && !at_end_ && bytes <= 2 * kLineBytesMax; bytes *= 2) {
      if (Status filled = fill(bytes); !filled.ok()) return std::move(filled).error();
      end = rest().find('\n');
    }
    ++line_;
    if (rest().empty()) return std::optional<TextPiece>();
    const std::string_view line = rest().substr(0, end);
    if (line.size() > kLineBytesMax) {
      return line_error(fmt::format("more than {} bytes in one line", kLineBytesMax));
    }
    TextPiece piece{.begins = true, .ends = true, .offset = first_};
    take(std::min(line.size() + 1, rest().size()));
    piece.held_out = first_ > held_out_from_;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    TextField field(field_);
    if (!Json::sax_parse(line, &field)) {
      return line_error(fmt::format("no JSON from byte {} of the line on", field.broken_at()));
    }
    if (!field.text()) {
      return line_error(fmt::format(
          "no object with a text in its field \"{}\" (--text-field names another)", field_));
    }
    text_ = std::move(*field.text());
    if (text_.empty()) continue;
    piece.text = text_;
    return std::optional(piece);
  }
}

Error TextFile::line_error(std::string_view what) const {
  return Error(ErrorCode::kCorrupt, fmt::format("{}, line {}: {}", path_.string(), line_, what));
}

}  // namespace starling::peer
