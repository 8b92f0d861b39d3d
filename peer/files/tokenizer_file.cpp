#include "peer/files/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "model/tokenizers/sentencepiece_tokenizer.h"
#include "model/tokenizers/tokenizer_json.h"
#include "peer/files/dataset.h"
#include "peer/files/hugging_face.h"
#include "peer/files/token_shard.h"
#include "peer/io/file_io.h"

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
  bool says_tokenizer = true;
  std::string tokenizer;
  std::uint32_t vocabulary = 0;
};

Result<ShardOrigin> origin_of(const fs::path& shard) {
  auto file = MappedFile::open(shard);
  if (!file.ok()) return std::move(file).error();
  auto view = TokenShardView::open(file.value().bytes());
  if (!view.ok()) return std::move(view).error().with_context(shard.string());
  const ShardHeader& header = view.value().header();
  return ShardOrigin{shard.parent_path(), header.format == ShardFormat::kStarling, header.tokenizer,
                     header.vocabulary};
}

Result<ShardOrigin> origin_of(std::span<const std::string> paths) {
  if (paths.empty()) return Error(ErrorCode::kNotFound, "no token shards are named");
  auto shards = shard_files(paths.front());
  if (!shards.ok()) return std::move(shards).error();
  return origin_of(shards.value().front());
}

// Of shards that do not say which tokenizer made them.
Result<TokenizerFile> tokenizer_beside(const fs::path& folder) {
  auto found = open_tokenizer((folder.empty() ? fs::path(".") : folder / "").string());
  if (found.ok() || found.error().code() != ErrorCode::kNotFound) return found;
  return Error(ErrorCode::kNotFound,
               fmt::format("the shards of llm.c in {} do not say which tokenizer made them: put "
                           "its tokenizer.json beside them",
                           folder.empty() ? "." : folder.string()));
}

fs::path name_beside_checkpoint(std::string_view name) {
  const bool model = name.starts_with(model::kTokenizerModelPrefix);
  return fmt::format("{}.{}", name, model ? "model" : "json");
}

// The tokenizer of this name, wherever it may lie.
Result<TokenizerFile> find_tokenizer(const PeerConfig& config, const TokenizerClue& clue) {
  if (clue.name == model::ByteTokenizer::kName) return bytes();
  const fs::path path = clue.folder / name_beside_checkpoint(clue.name);
  auto beside = open_tokenizer(path.string());
  if (beside.ok() && beside.value().tokenizer->name() == clue.name) return beside;
  auto of_data = tokenizer_of_shards(config.data.train);
  if (of_data.ok() && of_data.value().tokenizer->name() == clue.name) return of_data;
  if (beside.ok()) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} is not the tokenizer that its name says, but '{}': remove it, and "
                             "name the right one with --tokenizer",
                             path.string(), beside.value().tokenizer->name()));
  }
  if (beside.error().code() != ErrorCode::kNotFound) return beside;
  return Error(ErrorCode::kNotFound,
               fmt::format("the model was trained with tokenizer '{}', which lies neither beside "
                           "it as {} nor with its training data: put the file there, or name it "
                           "with --tokenizer",
                           clue.name, path.string()));
}

// Where nothing is known of the tokenizer but where its data lay, and how many tokens it may have.
Result<TokenizerFile> guess_tokenizer(const PeerConfig& config) {
  const std::int64_t vocabulary = config.model.vocabulary;
  auto found = tokenizer_of_shards(config.data.train);
  if (!found.ok()) {
    if (vocabulary == model::ByteTokenizer::kVocabulary) return bytes();
    return std::move(found).error().with_context(
        "the model does not say which tokenizer is its own, so that it is looked for beside its "
        "training data; name it with --tokenizer");
  }
  // Other data may lie by now where this model's data lay, or never were its data.
  const model::Tokenizer& tokenizer = *found.value().tokenizer;
  if (tokenizer.name() == model::ByteTokenizer::kName && tokenizer.vocabulary() != vocabulary) {
    return Error(
        ErrorCode::kNotFound,
        fmt::format("the model has {} tokens, but its training data are of bytes; name its "
                    "tokenizer with --tokenizer",
                    vocabulary));
  }
  return found;
}

// A SentencePiece model has no place for what was added to it later.
void warn_of_added(const fs::path& folder, const model::Tokenizer& tokenizer) {
  for (const std::string_view name : {kTokenizerJsonName, kAddedTokensName}) {
    auto text = read_text(folder / name, model::kTokenizerJsonBytesMax);
    if (!text.ok()) continue;
    const std::int64_t largest = largest_added_token(text.value());
    if (largest < tokenizer.vocabulary()) continue;
    log_warning(
        "{}: its {} has {} tokens, and {} more, up to number {}, which are read as text: a model "
        "that was trained with them does not hear them, nor say them",
        folder.string(), kTokenizerModelName, tokenizer.vocabulary(), name, largest);
    return;
  }
}

}  // namespace

Result<TokenizerFile> open_tokenizer(const std::string& spec) {
  if (spec == model::ByteTokenizer::kName) return bytes();
  fs::path path = spec;
  std::error_code unknown;
  const bool in_folder = fs::is_directory(path, unknown);
  if (in_folder) {
    const bool model = fs::exists(path / kTokenizerModelName, unknown);
    path /= model ? kTokenizerModelName : kTokenizerJsonName;
  }
  auto contents =
      read_text(path, std::max(model::kTokenizerJsonBytesMax, model::kTokenizerModelBytesMax));
  if (!contents.ok()) {
    return std::move(contents).error().with_context(
        "a tokenizer is \"bytes\", or the path of a tokenizer.model or tokenizer.json");
  }
  // What an export made of bytes: the shards of the model were made by those.
  if (contents.value() == byte_tokenizer_json()) return bytes();
  const bool json = is_json(path, contents.value());
  auto tokenizer = json ? model::read_tokenizer_json(contents.value())
                        : model::read_tokenizer_model(contents.value());
  if (!tokenizer.ok()) return std::move(tokenizer).error().with_context(path.string());
  if (in_folder && !json) warn_of_added(path.parent_path(), *tokenizer.value());
  return TokenizerFile{.tokenizer = std::move(tokenizer).value(),
                       .contents = std::move(contents).value(),
                       .file_name = json ? kTokenizerJsonName : kTokenizerModelName};
}

Result<TokenizerFile> tokenizer_of_shards(std::span<const std::string> paths) {
  auto origin = origin_of(paths);
  if (!origin.ok()) return std::move(origin).error();
  if (!origin.value().says_tokenizer) return tokenizer_beside(origin.value().folder);
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

Result<std::string> tokenizer_name_of_shards(std::span<const std::string> paths) {
  auto origin = origin_of(paths);
  if (!origin.ok()) return std::move(origin).error();
  if (origin.value().says_tokenizer) return std::move(origin.value().tokenizer);
  auto beside = tokenizer_beside(origin.value().folder);
  return beside.ok() ? std::string(beside.value().tokenizer->name()) : std::string();
}

Result<TokenizerFile> tokenizer_of_model(const PeerConfig& config, const TokenizerClue& clue,
                                         const std::string& spec) {
  auto found = !spec.empty()       ? open_tokenizer(spec)
               : clue.name.empty() ? guess_tokenizer(config)
                                   : find_tokenizer(config, clue);
  if (!found.ok()) return found;
  const model::Tokenizer& tokenizer = *found.value().tokenizer;
  const std::int64_t vocabulary = config.model.vocabulary;
  if (tokenizer.vocabulary() > vocabulary) {
    return Error(ErrorCode::kIncompatible,
                 fmt::format("tokenizer '{}' has {} tokens, but the model {}: it was trained with "
                             "another; name that one with --tokenizer",
                             tokenizer.name(), tokenizer.vocabulary(), vocabulary));
  }
  // A tokenizer may be written in two ways, so who asks for one gets it.
  if (!clue.name.empty() && tokenizer.name() != clue.name) {
    log_warning("the model was trained with tokenizer '{}', and {} is '{}'", clue.name, spec,
                tokenizer.name());
  }
  return found;
}

std::string keep_for_checkpoints(std::span<const std::string> shards, const fs::path& folder) {
  auto name = tokenizer_name_of_shards(shards);
  if (!name.ok()) return {};
  auto found = tokenizer_of_shards(shards);
  auto kept = found.ok() ? keep_beside_checkpoint(found.value(), folder)
                         : Result<fs::path>(std::move(found).error());
  if (!kept.ok()) {
    log_warning("no tokenizer will lie beside the checkpoints: {}", kept.error().message());
  }
  return std::move(name).value();
}

Result<fs::path> keep_beside_checkpoint(const TokenizerFile& file, const fs::path& folder) {
  if (file.contents.empty()) return fs::path();
  const fs::path path = folder / name_beside_checkpoint(file.tokenizer->name());
  if (Status kept = replace_file(path, file.contents); !kept.ok()) return std::move(kept).error();
  return path;
}

Status keep_tokenizer(const TokenizerFile& file, const fs::path& folder) {
  if (file.contents.empty()) return ok_status();
  return replace_file(folder / file.file_name, file.contents);
}

}  // namespace starling::peer
