// TextFile: the documents of one text file, piece by piece. A file is one document; one of JSON
// lines ("*.jsonl", "*.ndjson") has one in a field of every line, "text" unless another is named,
// and empty lines between. Either may be packed (byte_source.h). Blocking; one thread.
//
// What lies behind `held_out_from`, an offset in the unpacked file, is held out: of JSON lines
// those that end behind it; a plain text is cut into two documents, at the first line end at or
// after it if one is near and text follows, else at the first character.
//
// Errors name the file, and the line where there is one: what byte_source.h names, a file that
// begins like Parquet, UTF-16 or another format that is no text, JSON lines by another name, a
// field named for what is no JSON lines, a line that is no JSON, has no such field or is too long.
// Other bytes that are no UTF-8 are an error in JSON, which is UTF-8 by its definition, and no
// concern here in plain text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "peer/files/byte_source.h"

namespace starling::peer {

struct TextPiece {
  std::string_view text{};            // not empty; valid until the next call
  bool begins = false, ends = false;  // the document
  bool held_out = false;
  std::uint64_t offset = 0;  // of the piece, or of its line, in the unpacked file
};

// What stands for texts: files, and folders for the files in them and below, in the order of their
// names; hidden ones are left out, and empty ones, which are told. Errors: a folder without any, or
// one that cannot be read; a file that is named twice.
Result<std::vector<std::filesystem::path>> text_files(std::span<const std::filesystem::path> named);

inline constexpr std::string_view kTextField = "text";

// How long each is, unpacked; so that what TextFile::open() has against one is found before another
// is worked on. Errors: those, and an empty text.
Result<std::vector<std::uint64_t>> text_sizes(std::span<const std::filesystem::path> texts,
                                              const std::optional<std::string>& field);

class TextFile {
 public:
  static constexpr std::size_t kPieceBytesMax = std::size_t{1} << 20;
  static constexpr std::size_t kLineBytesMax = std::size_t{16} << 20;
  static constexpr std::uint64_t kNothingHeldOut = ~std::uint64_t{0};

  // How much of a plain text of at most kPieceBytesMax to hand out when more follows; not 0.
  using Cut = std::function<std::size_t(std::string_view text)>;

  // A field that is named says that the file is JSON lines; otherwise it is kTextField, if it is.
  static Result<TextFile> open(const std::filesystem::path& path,
                               std::uint64_t held_out_from = kNothingHeldOut,
                               const std::optional<std::string>& field = std::nullopt);

  // Nothing at the end.
  Result<std::optional<TextPiece>> next(const Cut& cut);
  // How much of the unpacked file was handed out.
  std::uint64_t done() const noexcept { return first_; }

 private:
  TextFile(std::filesystem::path path, std::unique_ptr<ByteSource> source,
           std::uint64_t held_out_from, std::string field);
  Status check_format();
  Status check_name(bool field_named);
  // Until `bytes` of the file are there behind first_, or its end is.
  Status fill(std::size_t bytes);
  std::string_view rest() const { return std::string_view(buffer_).substr(used_); }
  void take(std::size_t bytes);
  void find_split();
  Result<std::optional<TextPiece>> next_plain(const Cut& cut);
  Result<std::optional<TextPiece>> next_line();
  Error line_error(std::string_view what) const;

  std::filesystem::path path_;
  std::unique_ptr<ByteSource> source_;  // never null
  std::uint64_t held_out_from_;
  std::string field_;  // of JSON
  bool json_lines_;
  std::string buffer_;                    // of the file, from first_ - used_ on
  std::size_t used_ = 0;                  // of buffer_, handed out
  bool at_end_ = false;                   // nothing follows buffer_
  std::uint64_t first_ = 0;               // offset in the file of what comes next
  std::uint64_t line_ = 0;                // of JSON: how many were read
  bool inside_ = false;                   // a plain document has begun and not ended
  std::optional<std::uint64_t> split_{};  // where the plain text is cut in two
  bool held_out_ = false;                 // what comes of it is
  std::string text_;                      // of the last line
};

}  // namespace starling::peer
