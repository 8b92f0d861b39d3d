// Makes a tokenizer of texts (text_file.h): takes a sample of their lines that fits into memory,
// has SentencePiece learn from it (model/tokenizers/sentencepiece_training.h), and writes a
// tokenizer.model.
//
// Of texts larger than the sample every line has the same chance, drawn from a fixed seed, so that
// the same texts give the same file. Lines that are no UTF-8 or hold a zero teach nothing and are
// left out. Blocking; for the command line. Errors name the text, or what to ask for instead.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "model/tokenizers/sentencepiece_training.h"
#include "peer/files/text_file.h"

namespace starling::peer {

// Lines in memory, at most `bytes_max` of them and few less if there were more. One thread.
class LineSample {
 public:
  explicit LineSample(std::uint64_t bytes_max);
  // A line of any length without its end.
  void add(std::string_view line);
  std::uint64_t bytes() const noexcept { return bytes_; }
  bool thinned() const noexcept { return chance_ < 1; }  // there was more than `bytes_max`
  std::uint64_t bytes_seen() const noexcept { return bytes_seen_; }
  const std::vector<std::string>& sentences() const noexcept { return sentences_; }

 private:
  void keep(std::string_view sentence);
  std::uint64_t bytes_max_;
  std::uint64_t bytes_ = 0, bytes_seen_ = 0;
  double chance_ = 1;  // of a line to be taken
  Rng rng_;
  std::vector<std::string> sentences_;
};

struct TokenizerTrainingOptions {
  std::vector<std::filesystem::path> texts{};
  std::filesystem::path out{};  // a new file, or a folder for a new tokenizer.model
  model::TokenizerTraining training{};
  std::uint64_t sample_bytes_max = std::uint64_t{64} << 20;
  std::optional<std::string> text_field{};  // as TextFile::open() takes it
  // Told now and then, if there: how many bytes of text are read, and of how many.
  std::function<void(std::uint64_t done, std::uint64_t all)> progress{};
  // Told once, if there, before the long part.
  std::function<void(std::uint64_t sample_bytes, std::uint64_t text_bytes)> sampled{};
};

struct TokenizerTrainingReport {
  std::filesystem::path file{};
  std::string name{};  // of the tokenizer
};

Result<TokenizerTrainingReport> train_tokenizer(const TokenizerTrainingOptions& options);

}  // namespace starling::peer
