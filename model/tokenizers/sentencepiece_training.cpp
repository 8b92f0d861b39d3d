#include "model/tokenizers/sentencepiece_training.h"

#include <fmt/format.h>
#include <sentencepiece_trainer.h>

#include <charconv>
#include <exception>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "model/tokenizers/tokenizer_json.h"

namespace starling::model {

namespace {

class Sentences final : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(std::span<const std::string> sentences) : sentences_(sentences) {}
  bool done() const override { return at_ == sentences_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return sentences_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::span<const std::string> sentences_;
  std::size_t at_ = 0;
};

std::unordered_map<std::string, std::string> settings(const TokenizerTraining& training) {
  const bool bpe = training.algorithm == SentencePieceModel::Algorithm::kBpe;
  return {{"model_type", bpe ? "bpe" : "unigram"},
          {"vocab_size", std::to_string(training.vocabulary)},
          {"byte_fallback", "true"},
          {"split_digits", "true"},
          {"allow_whitespace_only_pieces", "true"},
          {"normalization_rule_name", "identity"},
          {"add_dummy_prefix", "false"},
          {"remove_extra_whitespaces", "false"},
          {"max_sentence_length", std::to_string(kSentenceBytesMax)},
          // Sums of floats depend on how many threads share them.
          {"num_threads", "8"},
          {"minloglevel", "2"}};
}

std::optional<std::int64_t> number_behind(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(at + words.size());
  std::int64_t number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return read.ec == std::errc() ? std::optional(number) : std::nullopt;
}

// The library's messages name its own options.
Error refusal(std::string_view message, std::int32_t vocabulary) {
  if (const auto most = number_behind(message, "set it to a value <= ")) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("the text gives no vocabulary of {} tokens, but one of {}: ask for at "
                             "most that, or give more text",
                             vocabulary, *most));
  }
  if (const auto characters = number_behind(message, fmt::format("{} vs ", vocabulary))) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("a vocabulary of {} tokens has no room for the characters of the "
                             "text: ask for more than {}",
                             vocabulary, *characters));
  }
  return Error(ErrorCode::kInvalidConfig, fmt::format("no tokenizer could be made: {}", message));
}

}  // namespace

Result<std::string> train_sentencepiece(std::span<const std::string> sentences,
                                        const TokenizerTraining& training) {
  if (training.vocabulary < kTrainedVocabularyMin || training.vocabulary > kVocabularyMax) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("a vocabulary of {} tokens is not in [{}, {}]", training.vocabulary,
                             kTrainedVocabularyMin, kVocabularyMax));
  }
  if (sentences.empty()) {
    return Error(ErrorCode::kInvalidConfig, "there is no text to make a tokenizer of");
  }
  try {
    Sentences source(sentences);
    std::string file;
    const auto trained =
        sentencepiece::SentencePieceTrainer::Train(settings(training), &source, &file);
    if (!trained.ok()) return refusal(trained.ToString(), training.vocabulary);
    return file;
  } catch (const std::exception& error) {
    return refusal(error.what(), training.vocabulary);
  }
}

}  // namespace starling::model
