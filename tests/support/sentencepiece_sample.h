// Text in no language, and SentencePiece models of it, trained by the library itself.
#pragma once

#include <doctest/doctest.h>
#include <sentencepiece_trainer.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/rng.h"

namespace starling::testing {

// Lines of words that often come again, with numbers, accents, and characters of other scripts.
inline std::string sample_text(std::size_t bytes, std::uint64_t seed) {
  constexpr std::string_view kParts[] = {"ta", "ri", "mon", "é",  "th", "e", "ing", "Ku",
                                         "öß", "12", "7",   "日", "本", "-", "'s",  "ﬁ"};
  Rng rng(seed);
  std::vector<std::string> words(400);
  for (std::string& word : words) {
    for (std::uint64_t i = 0; i <= rng.below(3); ++i) word += kParts[rng.below(std::size(kParts))];
  }
  std::string text;
  while (text.size() < bytes) {
    text += words[rng.below(rng.below(words.size()) + 1)];
    text += rng.below(12) == 0 ? "\n" : rng.below(20) == 0 ? ",  " : " ";
  }
  return text;
}

using TrainerOptions = std::unordered_map<std::string, std::string>;

// The model file that the library makes of sample_text(); `options` are its trainer's.
inline std::string sample_model(TrainerOptions options) {
  class Lines final : public sentencepiece::SentenceIterator {
   public:
    Lines() { Next(); }
    bool done() const override { return done_; }
    void Next() override {
      const std::size_t end = text_.find('\n', at_);
      done_ = end == std::string::npos;
      if (done_) return;
      line_ = text_.substr(at_, end - at_);
      at_ = end + 1;
    }
    const std::string& value() const override { return line_; }
    sentencepiece::util::Status status() const override { return {}; }

   private:
    std::string text_ = sample_text(40'000, 1);
    std::string line_;
    std::size_t at_ = 0;
    bool done_ = false;
  };
  options.insert({{"vocab_size", "420"},
                  {"hard_vocab_limit", "false"},
                  {"minloglevel", "3"},
                  {"num_threads", "1"}});
  Lines lines;
  std::string file;
  const auto trained = sentencepiece::SentencePieceTrainer::Train(options, &lines, &file);
  REQUIRE_MESSAGE(trained.ok(), trained.ToString());
  return file;
}

}  // namespace starling::testing
