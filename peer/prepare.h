// prepare: a text of any size -> token shards for training and a held-out rest for validation.
//
//   OUT/validation/00000.tok ...   the last `validation_fraction` of the text
//   OUT/train/00000.tok ...        the rest; this folder appears last, when everything is complete
//
// Either folder also holds the tokenizer's file, for those who have the shards only. Each of the
// two texts is one document: what the tokenizer has to begin and to end one stands around its
// tokens. Names of special tokens in the text are text, since anybody may have written it.
//
// The text is read in pieces, cut where the tokenizer says that it changes no token; in a piece
// with no such place, between two characters. Everything is written beside its final place and
// renamed, so an interrupted run leaves nothing that looks finished. Blocking; for the command
// line.
//
// Errors: an unreadable text, a full disk, an output that already exists; each names the path.
// Bytes that are no UTF-8 are encoded and counted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/result.h"
#include "peer/tokenizer_file.h"

namespace starling::peer {

struct PrepareOptions {
  std::filesystem::path text;
  std::filesystem::path out;
  double validation_fraction = 0.02;  // in (0, 0.5]
  std::uint64_t shard_tokens_max = std::uint64_t{1} << 27;
};

struct PrepareReport {
  std::uint64_t text_bytes = 0, train_tokens = 0, validation_tokens = 0;
  std::uint32_t train_shards = 0, validation_shards = 0;
  std::uint64_t invalid_bytes = 0;  // that are no UTF-8; a tokenizer of bytes does not mind any
  std::optional<std::uint64_t> first_invalid{};  // where in the text
};

Result<PrepareReport> prepare(const PrepareOptions& options, const TokenizerFile& tokenizer);

}  // namespace starling::peer
