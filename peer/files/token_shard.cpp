#include "peer/files/token_shard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "peer/io/byte_codec.h"

namespace starling::peer {

namespace {

constexpr std::string_view kMagic = "STRLTOK1";
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kIdsMax = INT32_MAX;  // ids are signed 32-bit numbers everywhere else
constexpr std::size_t kDigestedBytes = kShardHeaderBytes - sizeof(std::uint64_t);

constexpr std::size_t kLlmCHeaderBytes = 256 * sizeof(std::int32_t);
constexpr std::int32_t kLlmCQuestions = 20240522;  // multiple choice; no tokens to train on

struct LlmCVariant {
  std::int32_t magic, version;
  std::uint32_t token_bytes;
};
constexpr std::array kLlmCVariants{LlmCVariant{20240520, 1, 2}, LlmCVariant{20240801, 7, 4}};

Error corrupt_shard(std::string message) { return Error(ErrorCode::kCorrupt, std::move(message)); }

template <class Stored>
void widen(std::span<const std::byte> payload, std::uint64_t first,
           std::span<std::int32_t> target) {
  const std::byte* source = payload.data() + first * sizeof(Stored);
  for (std::int32_t& token : target) {
    Stored stored;
    std::memcpy(&stored, source, sizeof(Stored));
    token = static_cast<std::int32_t>(stored);
    source += sizeof(Stored);
  }
}

template <class Stored>
std::uint32_t largest(std::span<const std::byte> payload) {
  Stored result = 0;
  for (std::size_t i = 0; i + sizeof(Stored) <= payload.size(); i += sizeof(Stored)) {
    Stored stored;
    std::memcpy(&stored, payload.data() + i, sizeof(Stored));
    result = std::max(result, stored);
  }
  return result;
}

// The ranges that both a reader demands and a writer promises.
Status check_fields(const ShardHeader& header) {
  if (header.token_bytes != 2 && header.token_bytes != 4) {
    return corrupt_shard(fmt::format("{} bytes per token; 2 and 4 are known", header.token_bytes));
  }
  const std::uint64_t ids_max = header.token_bytes == 2 ? 65536 : kIdsMax + 1ULL;
  if (header.vocabulary == 0 || header.vocabulary > ids_max) {
    return corrupt_shard(fmt::format("a vocabulary of {} does not fit {} bytes per token",
                                     header.vocabulary, header.token_bytes));
  }
  if (!header.tokenizer.empty() && !model::is_tokenizer_name(header.tokenizer)) {
    return corrupt_shard(
        "the name of its tokenizer has something else than small letters, digits and dashes");
  }
  return ok_status();
}

// Null if this is something else.
const LlmCVariant* llm_c_variant(std::span<const std::byte> file) {
  const auto magic = ByteReader(file).get<std::int32_t>();
  for (const LlmCVariant& variant : kLlmCVariants) {
    if (variant.magic == magic) return &variant;
  }
  return nullptr;
}

// Compared by division: the product of a lying header could overflow.
Status check_length(const ShardHeader& header, std::span<const std::byte> payload) {
  if (payload.size() % header.token_bytes == 0 &&
      payload.size() / header.token_bytes == header.tokens) {
    return ok_status();
  }
  return corrupt_shard(fmt::format("it says {} tokens of {} bytes, but {} bytes follow its header",
                                   header.tokens, header.token_bytes, payload.size()));
}

Result<ShardHeader> read_llm_c(std::span<const std::byte> file, const LlmCVariant& variant) {
  if (file.size() < kLlmCHeaderBytes) {
    return corrupt_shard(fmt::format("{} bytes are too few for a shard of llm.c", file.size()));
  }
  ByteReader reader(file.subspan(sizeof(variant.magic)));
  const auto version = reader.get<std::int32_t>();
  const auto tokens = reader.get<std::int32_t>();
  if (version != variant.version) {
    return corrupt_shard(
        fmt::format("shard of llm.c with magic {} and version {}; this program reads {}",
                    variant.magic, version, variant.version));
  }
  if (tokens < 1) return corrupt_shard(fmt::format("shard of llm.c that says {} tokens", tokens));
  return ShardHeader{.format = ShardFormat::kLlmC,
                     .token_bytes = variant.token_bytes,
                     .tokens = static_cast<std::uint64_t>(tokens)};
}

}  // namespace

std::array<std::byte, kShardHeaderBytes> encode(const ShardHeader& header) {
  STARLING_ASSERT(header.tokenizer.size() <= kTokenizerNameMax);
  ByteWriter writer;
  writer.put_text(kMagic, kMagic.size());
  writer.put(kVersion);
  writer.put(header.token_bytes);
  writer.put(header.tokens);
  writer.put(header.digest);
  writer.put(header.vocabulary);
  writer.put_text(header.tokenizer, kTokenizerNameMax);
  STARLING_ASSERT(writer.bytes().size() == kDigestedBytes);
  writer.put(digest(writer.bytes()));
  std::array<std::byte, kShardHeaderBytes> result{};
  std::copy(writer.bytes().begin(), writer.bytes().end(), result.begin());
  return result;
}

Result<TokenShardView> TokenShardView::open(std::span<const std::byte> file) {
  if (const LlmCVariant* variant = llm_c_variant(file)) {
    auto header = read_llm_c(file, *variant);
    if (!header.ok()) return std::move(header).error();
    const std::span<const std::byte> payload = file.subspan(kLlmCHeaderBytes);
    Status length = check_length(header.value(), payload);
    if (!length.ok()) return std::move(length).error();
    return TokenShardView(std::move(header).value(), payload);
  }
  if (ByteReader(file).get<std::int32_t>() == kLlmCQuestions) {
    return corrupt_shard("these are questions of llm.c; starling eval --choices reads JSON lines");
  }
  if (file.size() < kShardHeaderBytes) {
    return corrupt_shard(fmt::format("{} bytes are too few for a token shard", file.size()));
  }
  ByteReader reader(file.first(kShardHeaderBytes));
  if (reader.text(kMagic.size()) != kMagic) {
    return corrupt_shard(
        "this is neither a token shard nor one of llm.c; 'starling prepare' makes shards of texts");
  }
  const auto version = reader.get<std::uint32_t>();
  ShardHeader header;
  header.token_bytes = reader.get<std::uint32_t>();
  header.tokens = reader.get<std::uint64_t>();
  header.digest = reader.get<std::uint64_t>();
  header.vocabulary = reader.get<std::uint32_t>();
  header.tokenizer = reader.text(kTokenizerNameMax);
  const auto header_digest = reader.get<std::uint64_t>();
  STARLING_ASSERT(reader.ok());
  // The version comes before the digest: another version may well digest other bytes.
  if (version != kVersion) {
    return corrupt_shard(
        fmt::format("token shard of version {}; this program reads {}", version, kVersion));
  }
  if (header_digest != digest(file.first(kDigestedBytes)))
    return corrupt_shard("its header is damaged");
  auto fields = check_fields(header);
  if (!fields.ok()) return std::move(fields).error();
  const std::span<const std::byte> payload = file.subspan(kShardHeaderBytes);
  Status length = check_length(header, payload);
  if (!length.ok()) return std::move(length).error();
  return TokenShardView(std::move(header), payload);
}

Status TokenShardView::verify() {
  const std::uint64_t actual = digest(payload_);
  const std::uint32_t id = header_.token_bytes == 2 ? largest<std::uint16_t>(payload_)
                                                    : largest<std::uint32_t>(payload_);
  if (header_.format == ShardFormat::kLlmC) {
    if (id > kIdsMax)
      return corrupt_shard(fmt::format("it holds token {}; ids end at {}", id, kIdsMax));
    header_.digest = actual;
    header_.vocabulary = id + 1;
    return ok_status();
  }
  if (actual != header_.digest) return corrupt_shard("its tokens are damaged");
  if (id >= header_.vocabulary && header_.tokens > 0) {
    return corrupt_shard(
        fmt::format("it holds token {}, but its vocabulary is {}", id, header_.vocabulary));
  }
  return ok_status();
}

void TokenShardView::copy(std::uint64_t first, std::span<std::int32_t> target) const {
  STARLING_ASSERT(first <= header_.tokens);
  STARLING_ASSERT(target.size() <= header_.tokens - first);
  if (header_.token_bytes == 2) {
    widen<std::uint16_t>(payload_, first, target);
  } else {
    widen<std::uint32_t>(payload_, first, target);
  }
}

Result<TokenShard> TokenShard::open(const std::filesystem::path& path, ShardCheck check) {
  constexpr std::string_view kRemedy = "; make it anew with 'starling prepare'";
  auto file = MappedFile::open(path);
  if (!file.ok()) {
    Error error = std::move(file).error();
    if (error.code() != ErrorCode::kNotFound) return error;
    return Error(error.code(), error.message() + std::string(kRemedy));
  }
  const bool of_llm_c = llm_c_variant(file.value().bytes()) != nullptr;
  const auto naming = [&](const Error& error) {
    return corrupt_shard(fmt::format("{}: {}{}", path.string(), error.message(),
                                     of_llm_c ? "; make it anew with llm.c's dev/data" : kRemedy));
  };
  auto view = TokenShardView::open(file.value().bytes());
  if (!view.ok()) return naming(view.error());
  // A header of llm.c tells neither digest nor vocabulary.
  const bool whole = check == ShardCheck::kWhole || of_llm_c;
  Status verified = whole ? view.value().verify() : ok_status();
  if (!verified.ok()) return naming(verified.error());
  return TokenShard(path, std::move(file).value(), std::move(view).value());
}

Result<ShardWriter> ShardWriter::create(const std::filesystem::path& path, ShardHeader header) {
  header.tokens = 0;
  auto fields = check_fields(header);
  if (!fields.ok()) return std::move(fields).error();
  auto file = FileHandle::open(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file.ok()) return std::move(file).error();
  const std::array<std::byte, kShardHeaderBytes> blank{};
  auto written = write_all(file.value(), path, blank);
  if (!written.ok()) return std::move(written).error();
  return ShardWriter(path, std::move(file).value(), std::move(header));
}

Status ShardWriter::append(std::span<const std::int32_t> tokens) {
  encoded_.resize(tokens.size() * header_.token_bytes);
  std::byte* target = encoded_.data();
  for (const std::int32_t token : tokens) {
    if (token < 0 || static_cast<std::uint32_t>(token) >= header_.vocabulary) {
      return Error(ErrorCode::kInvalidConfig,
                   fmt::format("tokenizer '{}' gave token {}, but its vocabulary is {}",
                               header_.tokenizer, token, header_.vocabulary));
    }
    // Little-endian: the low bytes come first, whatever the width.
    std::memcpy(target, &token, header_.token_bytes);
    target += header_.token_bytes;
  }
  digest_.update(encoded_);
  header_.tokens += tokens.size();
  return write_all(file_, path_, encoded_);
}

Status ShardWriter::finish() {
  header_.digest = digest_.value();
  const auto header = encode(header_);
  if (::lseek(file_.get(), 0, SEEK_SET) != 0) return io_error("seek in", path_, errno);
  auto written = write_all(file_, path_, header);
  if (!written.ok()) return written;
  if (::fdatasync(file_.get()) != 0) return io_error("make durable", path_, errno);
  file_ = FileHandle();
  return ok_status();
}

}  // namespace starling::peer
