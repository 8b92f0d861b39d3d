#include "model/tokenizers/sentencepiece_training.h"

#include <doctest/doctest.h>

#include <charconv>
#include <string>
#include <vector>

#include "model/tokenizers/sentencepiece_tokenizer.h"
#include "model/tokenizers/unicode.h"
#include "tests/support/sentencepiece_sample.h"

namespace starling::model {

using starling::testing::sample_text;

namespace {

using Algorithm = SentencePieceModel::Algorithm;

std::vector<std::string> sentences() {
  const std::string text = sample_text(40'000, 1);
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::int32_t last_number(const std::string& message, const std::string& before) {
  const std::size_t at = message.find(before);
  REQUIRE_MESSAGE(at != std::string::npos, message);
  std::int32_t number = 0;
  const char* digits = message.data() + at + before.size();
  std::from_chars(digits, message.data() + message.size(), number);
  return number;
}

}  // namespace

TEST_CASE("a trained tokenizer has the vocabulary asked for, and gives every text back") {
  for (const Algorithm algorithm : {Algorithm::kUnigram, Algorithm::kBpe}) {
    const auto lines = sentences();
    auto file = train_sentencepiece(lines, {algorithm, 400});
    REQUIRE_MESSAGE(file.ok(), file.error().message());
    auto tokenizer = read_tokenizer_model(file.value());
    REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().message());
    CHECK(tokenizer.value()->vocabulary() == 400);
    CHECK(tokenizer.value()->begin_token() == 1);
    CHECK(tokenizer.value()->end_token() == 2);
    const std::string known = sample_text(2'000, 1);
    for (const std::string& text : {known, std::string("  a \t\n\n \u2581\u2585\u00a0\u3000x "),
                                    std::string("\0\xff<s>", 5)}) {
      std::vector<std::int32_t> tokens;
      tokenizer.value()->encoder(SpecialTokens::kAsText)->encode(text, tokens);
      CHECK(decode(*tokenizer.value(), tokens) == text);
      if (text == known) CHECK(tokens.size() < text.size() / 2);
    }
    auto again = train_sentencepiece(lines, {algorithm, 400});
    REQUIRE(again.ok());
    CHECK(again.value() == file.value());
  }
}

TEST_CASE("a vocabulary that does not fit the text is refused, and one is named that works") {
  const auto lines = sentences();
  for (const Algorithm algorithm : {Algorithm::kUnigram, Algorithm::kBpe}) {
    auto large = train_sentencepiece(lines, {algorithm, 30'000});
    REQUIRE(!large.ok());
    const std::int32_t most = last_number(large.error().message(), "but one of ");
    CHECK(most < 30'000);
    CHECK(train_sentencepiece(lines, {algorithm, most}).ok());

    std::vector<std::string> wide(1);
    for (char32_t code = 0x4e00; code < 0x4e00 + 500; ++code) append_character(code, wide[0]);
    auto small = train_sentencepiece(wide, {algorithm, 320});
    REQUIRE(!small.ok());
    CHECK(last_number(small.error().message(), "more than ") > 320);
  }
  CHECK(!train_sentencepiece(lines, {Algorithm::kBpe, 100}).ok());
  CHECK(!train_sentencepiece({}, {Algorithm::kBpe, 400}).ok());
}

}  // namespace starling::model
