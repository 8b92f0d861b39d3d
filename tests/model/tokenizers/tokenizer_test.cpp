#include "model/tokenizers/tokenizer.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace starling::model {

TEST_CASE("the byte tokenizer gives every byte back") {
  std::string text;
  for (int i = 0; i < 256; ++i) text.push_back(static_cast<char>(i));
  const ByteTokenizer tokenizer;
  const auto encoder = tokenizer.encoder(SpecialTokens::kRecognised);
  std::vector<std::int32_t> tokens = {7};
  encoder->encode(text, tokens);
  REQUIRE(tokens.size() == 257);
  CHECK(tokens.front() == 7);
  CHECK(tokens[1] == 0);
  CHECK(tokens.back() == 255);
  CHECK(decode(tokenizer, std::span(tokens).subspan(1)) == text);
  CHECK(tokenizer.cut(text) == 256);
  CHECK(!tokenizer.end_token().has_value());
}

TEST_CASE("a character that has only begun is held back, bytes that begin none are not") {
  CHECK(complete_characters("") == 0);
  CHECK(complete_characters("abc") == 3);
  const std::string smile = "x\xf0\x9f\x99\x82";
  for (std::size_t bytes = 2; bytes < smile.size(); ++bytes) {
    CHECK(complete_characters(std::string_view(smile).substr(0, bytes)) == 1);
  }
  CHECK(complete_characters(smile) == 5);
  CHECK(complete_characters("\xc3") == 0);
  CHECK(complete_characters("\xc3\xa9") == 2);
  CHECK(complete_characters("\x80\x80\x80\x80") == 4);
  CHECK(complete_characters("\xff") == 1);
}

}  // namespace starling::model
