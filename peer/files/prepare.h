// prepare: texts of any size -> token shards for training and a held-out rest for validation.
//
//   OUT/validation/00000.tok ...   the last `validation_fraction` of the texts
//   OUT/train/00000.tok ...        the rest; this folder appears last, when everything is complete
//
// Either folder also holds the tokenizer's file, for those who have the shards only. text_file.h
// says what a text and its documents may be; the texts are taken in the order given, as one. What
// the tokenizer has to begin and to end a document stands around its tokens; where it has neither,
// a line end stands between two. Names of special tokens in the texts are text.
//
// The texts are read in pieces, cut where the tokenizer says that it changes no token; in a piece
// with no such place, between two characters. So memory does not grow with them. What comes out
// does not depend on the number of threads. Everything is written beside its final place and
// renamed, so an interrupted run leaves nothing that looks finished. Blocking; for the command
// line.
//
// Errors: those of text_file.h, an empty text, texts too short to hold something out, a full disk,
// an output that already exists; each names the path. Bytes that are no UTF-8 are encoded and
// counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "peer/files/text_file.h"
#include "peer/files/tokenizer_file.h"

namespace starling::peer {

struct PrepareOptions {
  std::vector<std::filesystem::path> texts{};
  std::filesystem::path out{};
  double validation_fraction = 0.02;  // in [0, 0.5]; 0: nothing is held out, no OUT/validation
  std::optional<std::string> text_field{};  // as TextFile::open() takes it
  std::uint64_t shard_tokens_max = std::uint64_t{1} << 27;
  std::size_t threads = 1;
  // Told now and then, if there: how many bytes of text are done, and of how many.
  std::function<void(std::uint64_t done, std::uint64_t all)> progress{};
};

struct PrepareReport {
  struct Split {
    std::uint64_t tokens = 0, documents = 0;
    std::uint32_t shards = 0;
  };
  std::uint64_t text_bytes = 0;  // unpacked
  Split train{}, validation{};
  // That are no UTF-8, in all texts; a tokenizer of bytes does not mind any.
  std::uint64_t invalid_bytes = 0;
  struct Place {
    std::filesystem::path file;
    std::uint64_t offset = 0;  // unpacked
  };
  std::optional<Place> first_invalid{};
};

Result<PrepareReport> prepare(const PrepareOptions& options, const TokenizerFile& tokenizer);

}  // namespace starling::peer
