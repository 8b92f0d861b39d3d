// Tokenizers by name and by file: what `--tokenizer` says, and what lies beside token shards. A
// folder of shards holds the file that they were made with, and every shard its name, which is a
// digest of that file: nothing that was made by two tokenizers is ever mixed. A folder of
// checkpoints holds it as NAME.json or NAME.model, so that it may serve several models. Blocking;
// errors name the file and what to do.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/tokenizers/tokenizer.h"
#include "peer/config/config.h"

namespace starling::peer {

inline constexpr std::string_view kTokenizerJsonName = "tokenizer.json";
inline constexpr std::string_view kTokenizerModelName = "tokenizer.model";  // SentencePiece
inline constexpr std::string_view kAddedTokensName = "added_tokens.json";

struct TokenizerFile {
  std::unique_ptr<model::Tokenizer> tokenizer{};  // never null
  std::string contents{};                         // of its file; empty for bytes, which need none
  std::string_view file_name{};                   // one of the two above; empty for bytes
};

// `spec`: "bytes", a SentencePiece model, a tokenizer.json, or a folder that holds a file of one
// of the two names; where it holds both, the SentencePiece model is meant, and a warning tells of
// tokens that only the other has.
Result<TokenizerFile> open_tokenizer(const std::string& spec);

// The tokenizer that the first of these shards, or folders of shards, was made with. Shards of
// llm.c do not say it: of those it is the one that somebody has put beside them.
Result<TokenizerFile> tokenizer_of_shards(std::span<const std::string> paths);

// Its name alone, which the shards state even where the file is lost; empty where they do not.
Result<std::string> tokenizer_name_of_shards(std::span<const std::string> paths);

// What a checkpoint says of the tokenizer that its model was trained with.
struct TokenizerClue {
  std::string name{};              // as model::Tokenizer has it; empty: unknown
  std::filesystem::path folder{};  // that of the checkpoint
};

// The tokenizer that a model was trained with: `spec` where it is not empty, else the one of the
// name in `clue`, from its folder or from beside the training data which the configuration names.
// Without a name in `clue`: what lies beside the training data, or bytes where the model has 256
// tokens. It never has more tokens than the model.
Result<TokenizerFile> tokenizer_of_model(const PeerConfig& config, const TokenizerClue& clue,
                                         const std::string& spec);

// Keeps the tokenizer that made these shards in a folder of checkpoints, under a name that is its
// own, and returns its name; empty if there is none. That its file is lost, or cannot be written,
// is a warning: training needs it not.
std::string keep_for_checkpoints(std::span<const std::string> shards,
                                 const std::filesystem::path& folder);
// The same for one that is open; returns the file, whose name is empty for bytes.
Result<std::filesystem::path> keep_beside_checkpoint(const TokenizerFile& file,
                                                     const std::filesystem::path& folder);

// Writes the file, if there is one, into a folder of shards.
Status keep_tokenizer(const TokenizerFile& file, const std::filesystem::path& folder);

}  // namespace starling::peer
