// Token shard: a file of token ids, ready to be mapped and trained on. All fields little-endian.
//
//   offset  bytes  field
//   0       8      magic "STRLTOK1"
//   8       4      version, 1
//   12      4      bytes per token, 2 or 4
//   16      8      tokens
//   24      8      digest of the payload (base/hash.h)
//   32      4      vocabulary: every id is below it
//   36      20     name of the tokenizer, filled up with zeros
//   56      8      digest of bytes 0 to 55
//   64             payload: tokens * bytes per token, and then nothing
//
// Shards of llm.c are read as they are, too (github.com/karpathy/llm.c, write_datafile in
// dev/data/data_common.py): 256 numbers of 32 bits, of which the first three are a magic, a version
// and the tokens; 20240520 and 1 before tokens of 2 bytes, 20240801 and 7 before tokens of 4. They
// say neither their tokenizer nor its vocabulary.
//
// TokenShardView looks at such bytes wherever they lie; they are hostile until open() and verify()
// have passed. TokenShard owns a mapped file. Both are read-only and may be used by any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "model/tokenizers/tokenizer.h"
#include "peer/io/file_io.h"

namespace starling::peer {

inline constexpr std::size_t kShardHeaderBytes = 64;
using model::kTokenizerNameMax;

enum class ShardFormat : std::uint8_t { kStarling, kLlmC };

struct ShardHeader {
  ShardFormat format = ShardFormat::kStarling;
  std::uint32_t token_bytes = 2;
  std::uint32_t vocabulary = 0;  // of llm.c, once verified: one more than the largest id
  std::uint64_t tokens = 0;
  std::uint64_t digest = 0;  // of llm.c: once verified
  std::string tokenizer{};   // of llm.c: empty
};

// Of a header of our own.
std::array<std::byte, kShardHeaderBytes> encode(const ShardHeader& header);

class TokenShardView {
 public:
  // Checks the header and that the length fits it exactly; does not read the payload.
  static Result<TokenShardView> open(std::span<const std::byte> file);

  // Reads everything once: the payload's digest, and that every id is below the vocabulary. Of a
  // shard of llm.c both are found out here.
  Status verify();

  const ShardHeader& header() const noexcept { return header_; }
  std::uint64_t tokens() const noexcept { return header_.tokens; }
  // Tokens [first, first + target.size()), which must lie inside the shard.
  void copy(std::uint64_t first, std::span<std::int32_t> target) const;

 private:
  TokenShardView(ShardHeader header, std::span<const std::byte> payload)
      : header_(std::move(header)), payload_(payload) {}
  ShardHeader header_;
  std::span<const std::byte> payload_;
};

// How much of a shard is believed unread: nothing, or all but its header.
enum class ShardCheck : std::uint8_t { kWhole, kHeader };

class TokenShard {
 public:
  // Opens, maps and verifies. Errors name the path and what to do.
  static Result<TokenShard> open(const std::filesystem::path& path,
                                 ShardCheck check = ShardCheck::kWhole);
  const TokenShardView& view() const noexcept { return view_; }
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  TokenShard(std::filesystem::path path, MappedFile file, TokenShardView view)
      : path_(std::move(path)), file_(std::move(file)), view_(std::move(view)) {}
  std::filesystem::path path_;
  MappedFile file_;  // view_ points into it
  TokenShardView view_;
};

// Writes one shard piece by piece. The header is written last, so an unfinished file is never
// taken for a shard. One thread.
class ShardWriter {
 public:
  // `header.tokens` and `header.digest` are filled in by finish().
  static Result<ShardWriter> create(const std::filesystem::path& path, ShardHeader header);

  // An id outside the vocabulary is an error, and the file is then of no use.
  Status append(std::span<const std::int32_t> tokens);
  std::uint64_t tokens() const noexcept { return header_.tokens; }
  // Makes the shard valid and durable. Nothing may be appended any more.
  Status finish();

 private:
  ShardWriter(std::filesystem::path path, FileHandle file, ShardHeader header)
      : path_(std::move(path)), file_(std::move(file)), header_(std::move(header)) {}
  std::filesystem::path path_;
  FileHandle file_;
  ShardHeader header_;
  StreamDigest digest_;
  std::vector<std::byte> encoded_;  // scratch of append()
};

}  // namespace starling::peer
