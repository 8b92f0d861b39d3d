// prepare: a text of any size -> token shards for training and a held-out rest for validation.
//
//   OUT/validation/00000.tok ...   the last `validation_fraction` of the text
//   OUT/train/00000.tok ...        the rest; this folder appears last, when everything is complete
//
// The text is read in pieces that end at a line end where there is one, and each piece is given to
// the tokenizer on its own. Everything is written beside its final place and renamed, so an
// interrupted run leaves nothing that looks finished. Blocking; for the command line.
//
// Errors: an unreadable text, a full disk, an output that already exists, a tokenizer that leaves
// its vocabulary; each names the path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace starling::peer {

struct Tokenizer {
  std::string name;  // at most kTokenizerNameMax bytes; stands in every shard
  std::uint32_t vocabulary = 0;
  // Appends the tokens of `text` to `tokens`.
  std::function<void(std::string_view text, std::vector<std::int32_t>& tokens)> encode;
};

struct PrepareOptions {
  std::filesystem::path text;
  std::filesystem::path out;
  double validation_fraction = 0.02;  // in (0, 0.5]
  std::uint64_t shard_tokens_max = std::uint64_t{1} << 27;
};

struct PrepareReport {
  std::uint64_t text_bytes = 0, train_tokens = 0, validation_tokens = 0;
  std::uint32_t train_shards = 0, validation_shards = 0;
};

Result<PrepareReport> prepare(const PrepareOptions& options, const Tokenizer& tokenizer);

}  // namespace starling::peer
