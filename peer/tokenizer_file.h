// Tokenizers by name and by file: what `--tokenizer` says, and what lies beside token shards. A
// folder of shards holds the file that they were made with, and every shard its name, which is a
// digest of that file: nothing that was made by two tokenizers is ever mixed. Blocking; errors name
// the file and what to do.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/tokenizer.h"
#include "peer/config.h"

namespace starling::peer {

inline constexpr std::string_view kTokenizerJsonName = "tokenizer.json";
inline constexpr std::string_view kTokenizerModelName = "tokenizer.model";  // SentencePiece

struct TokenizerFile {
  std::unique_ptr<model::Tokenizer> tokenizer{};  // never null
  std::string contents{};                         // of its file; empty for bytes, which need none
  std::string_view file_name{};                   // one of the two above; empty for bytes
};

// `spec`: "bytes", a SentencePiece model, a tokenizer.json, or a folder that holds a file of one
// of the two names; where it holds both, the SentencePiece model is meant.
Result<TokenizerFile> open_tokenizer(const std::string& spec);

// The tokenizer that the first of these shards, or folders of shards, was made with.
Result<TokenizerFile> tokenizer_of_shards(std::span<const std::string> paths);

// The tokenizer that a model was trained with: `spec` where it is not empty, else that of the
// training data which the configuration names, if it can be found; bytes where the model has 256
// tokens. It never has more tokens than the model.
Result<TokenizerFile> tokenizer_of_model(const PeerConfig& config, const std::string& spec);

// Writes the file, if there is one, into a folder of shards.
Status keep_tokenizer(const TokenizerFile& file, const std::filesystem::path& folder);

}  // namespace starling::peer
