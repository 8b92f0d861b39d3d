#include "peer/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/sentencepiece_tokenizer.h"
#include "model/tokenizer_json.h"
#include "peer/dataset.h"
#include "peer/file_io.h"
#include "peer/token_shard.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;

TokenizerFile bytes() { return {.tokenizer = std::make_unique<model::ByteTokenizer>()}; }

// People give these files all kinds of names; what is inside begins differently.
bool is_json(const fs::path& path, std::string_view contents) {
  const std::size_t first = contents.find_first_not_of(" \t\r\n");
  const bool object = first != std::string_view::npos && contents[first] == '{';
  return object || path.extension() == ".json";
}

struct ShardOrigin {
  fs::path folder;
  std::string tokenizer;
  std::uint32_t vocabulary = 0;
};

Result<ShardOrigin> origin_of(const fs::path& shard) {
  auto file = MappedFile::open(shard);
  if (!file.ok()) return std::move(file).error();
  auto view = TokenShardView::open(file.value().bytes());
  if (!view.ok()) return std::move(view).error().with_context(shard.string());
  const ShardHeader& header = view.value().header();
  return ShardOrigin{shard.parent_path(), header.tokenizer, header.vocabulary};
}

}  // namespace

Result<TokenizerFile> open_tokenizer(const std::string& spec) {
  if (spec == model::ByteTokenizer::kName) return bytes();
  fs::path path = spec;
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) {
    const bool model = fs::exists(path / kTokenizerModelName, unknown);
    path /= model ? kTokenizerModelName : kTokenizerJsonName;
  }
  auto contents =
      read_text(path, std::max(model::kTokenizerJsonBytesMax, model::kTokenizerModelBytesMax));
  if (!contents.ok()) {
    return std::move(contents).error().with_context(
        "a tokenizer is \"bytes\", or the path of a tokenizer.model or tokenizer.json");
  }
  const bool json = is_json(path, contents.value());
  auto tokenizer = json ? model::read_tokenizer_json(contents.value())
                        : model::read_tokenizer_model(contents.value());
  if (!tokenizer.ok()) return std::move(tokenizer).error().with_context(path.string());
  return TokenizerFile{.tokenizer = std::move(tokenizer).value(),
                       .contents = std::move(contents).value(),
                       .file_name = json ? kTokenizerJsonName : kTokenizerModelName};
}

Result<TokenizerFile> tokenizer_of_shards(std::span<const std::string> paths) {
  if (paths.empty()) return Error(ErrorCode::kNotFound, "no token shards are named");
  auto shards = shard_files(paths.front());
  if (!shards.ok()) return std::move(shards).error();
  auto origin = origin_of(shards.value().front());
  if (!origin.ok()) return std::move(origin).error();
  const std::string& name = origin.value().tokenizer;
  const bool model = name.starts_with(model::kTokenizerModelPrefix);
  const fs::path path = origin.value().folder / (model ? kTokenizerModelName : kTokenizerJsonName);
  auto found = open_tokenizer(name == model::ByteTokenizer::kName ? name : path.string());
  if (!found.ok()) {
    return std::move(found).error().with_context(
        fmt::format("the shards in {} were made by tokenizer '{}', whose file must lie beside them",
                    origin.value().folder.string(), name));
  }
  const model::Tokenizer& tokenizer = *found.value().tokenizer;
  if (tokenizer.name() != name ||
      origin.value().vocabulary != static_cast<std::uint32_t>(tokenizer.vocabulary())) {
    return Error(
        ErrorCode::kIncompatible,
        fmt::format("{} is tokenizer '{}', but the shards beside it were made by '{}': put "
                    "that one there",
                    path.string(), tokenizer.name(), name));
  }
  return found;
}

Result<TokenizerFile> tokenizer_of_model(const PeerConfig& config, const std::string& spec) {
  const std::int64_t vocabulary = config.model.vocabulary;
  auto found = spec.empty() ? tokenizer_of_shards(config.data.train) : open_tokenizer(spec);
  if (!found.ok() && spec.empty()) {
    if (vocabulary == model::ByteTokenizer::kVocabulary) return bytes();
    return std::move(found).error().with_context(
        "the model's tokenizer is looked for beside its training data; name it with --tokenizer");
  }
  if (!found.ok()) return found;
  const model::Tokenizer& tokenizer = *found.value().tokenizer;
  // Other data may lie by now where this model's data lay, or never were its data.
  if (spec.empty() && tokenizer.name() == model::ByteTokenizer::kName &&
      tokenizer.vocabulary() != vocabulary) {
    return Error(
        ErrorCode::kNotFound,
        fmt::format("the model has {} tokens, but its training data are of bytes; name its "
                    "tokenizer with --tokenizer",
                    vocabulary));
  }
  if (tokenizer.vocabulary() > vocabulary) {
    return Error(ErrorCode::kIncompatible,
                 fmt::format("tokenizer '{}' has {} tokens, but the model {}: it was trained with "
                             "another; name that one with --tokenizer",
                             tokenizer.name(), tokenizer.vocabulary(), vocabulary));
  }
  return found;
}

Status keep_tokenizer(const TokenizerFile& file, const fs::path& folder) {
  if (file.contents.empty()) return ok_status();
  return replace_file(folder / file.file_name, file.contents);
}

}  // namespace starling::peer
