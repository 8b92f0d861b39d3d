#include "model/tokenizers/bpe_tokenizer.h"

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "model/tokenizers/unicode.h"
#include "tests/model/tokenizers/tokenizer_golden.h"

namespace starling::model {

namespace {

using Tokens = std::vector<std::int32_t>;

Tokens encode(const Tokenizer& tokenizer, std::string_view text,
              SpecialTokens special = SpecialTokens::kAsText) {
  Tokens tokens;
  tokenizer.encoder(special)->encode(text, tokens);
  return tokens;
}

// Some letters, spaces, line ends, digits, marks, an added token and bytes that are no UTF-8.
std::string odd_text(Rng& rng, std::size_t pieces) {
  static const std::vector<std::string> kPieces = {
      "a",        "the ", " ",    "\n",           "\r\n",     "  ",           "1",       "23",
      "'s",       "'",    ".",    "\xe4\xb8\xad", "\xc3\xa9", "e\xcc\x81",    "\xff",    "\xe4",
      "\xcc\x81", "word", "<thi", "<think>",      "\t",       "\xe3\x80\x80", "\xc2\xa0"};
  std::string text;
  for (std::size_t i = 0; i < pieces; ++i) text += kPieces[rng.below(kPieces.size())];
  return text;
}

}  // namespace

TEST_CASE("tokens are those of the reference implementation") {
  const auto cases = nlohmann::json::parse(golden_text("cases.json"));
  const auto texts = cases["texts"].get<std::vector<std::string>>();
  REQUIRE(texts.size() > 100);
  for (const std::string family : {"gpt2", "llama3", "qwen2"}) {
    CAPTURE(family);
    const auto tokenizer = golden_tokenizer(family);
    const auto recognised = tokenizer->encoder(SpecialTokens::kRecognised);
    const auto as_text = tokenizer->encoder(SpecialTokens::kAsText);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(texts[i]);
      Tokens tokens;
      recognised->encode(texts[i], tokens);
      CHECK(tokens == cases[family]["recognised"][i].get<Tokens>());
      tokens.clear();
      as_text->encode(texts[i], tokens);
      CHECK(tokens == cases[family]["as_text"][i].get<Tokens>());
      if (family != "qwen2") CHECK(decode(*tokenizer, tokens) == texts[i]);
    }
  }
}

TEST_CASE("any bytes come back, in the same tokens from a used encoder as from a new one") {
  const auto tokenizer = golden_tokenizer("llama3");
  const auto encoder = tokenizer->encoder(SpecialTokens::kAsText);
  Rng rng(3);
  for (int i = 0; i < 300; ++i) {
    const std::string text = odd_text(rng, 1 + rng.below(40));
    Tokens tokens;
    encoder->encode(text, tokens);
    REQUIRE(tokens == encode(*tokenizer, text));
    REQUIRE(decode(*tokenizer, tokens) == text);
  }
}

TEST_CASE("a text that is cut where the tokenizer says has the tokens of the whole") {
  for (const std::string family : {"gpt2", "llama3", "qwen2"}) {
    CAPTURE(family);
    const auto tokenizer = golden_tokenizer(family);
    Rng rng(4);
    std::size_t cuts = 0;
    for (int i = 0; i < 400; ++i) {
      const std::string text = odd_text(rng, 60);
      CAPTURE(text);
      // What is seen of the text may end anywhere, also within a character.
      const std::string_view seen = std::string_view(text).substr(0, rng.below(text.size() + 1));
      const std::size_t cut = tokenizer->cut(seen);
      REQUIRE(cut <= seen.size());
      cuts += cut > 0 ? 1 : 0;
      Tokens tokens = encode(*tokenizer, text.substr(0, cut));
      const Tokens rest = encode(*tokenizer, text.substr(cut));
      tokens.insert(tokens.end(), rest.begin(), rest.end());
      REQUIRE(tokens == encode(*tokenizer, text));
    }
    CHECK(cuts > 200);
  }
}

TEST_CASE("an added token with a space in it is not cut in two where only its beginning is seen") {
  struct Case {
    std::string family, content, text;
    bool normalized;
  };
  const std::string city = "who does not go to New York now, goes to New Amsterdam";
  const std::vector<Case> cases = {
      {"gpt2", "New York", city, false},
      {"gpt2", "New York", city, true},
      // Where one begins depends on those before it.
      {"gpt2", "a a", "x a a a a a a a a a a a a a a a a b a a", false},
      // Found in the normal form, of which the text is another.
      {"qwen2", "caf\u00e9 x", "un cafe\u0301 x et deux cafe\u0301 x, cafe\u0301 y", true},
  };
  for (const Case& one : cases) {
    CAPTURE(one.content);
    CAPTURE(one.normalized);
    nlohmann::json file = golden_file(one.family);
    nlohmann::json token = file["added_tokens"].back();
    token["id"] = file["model"]["vocab"].size() + file["added_tokens"].size();
    token["content"] = one.content;
    token["special"] = false;
    token["normalized"] = one.normalized;
    file["added_tokens"].push_back(token);
    auto read = read_tokenizer_json(file.dump());
    REQUIRE(read.ok());
    const auto tokenizer = std::move(read).value();
    const Tokens whole = encode(*tokenizer, one.text);
    CHECK(std::count(whole.begin(), whole.end(), token["id"].get<std::int32_t>()) > 0);
    for (std::size_t seen = 0; seen <= one.text.size(); ++seen) {
      CAPTURE(seen);
      const std::size_t cut = tokenizer->cut(std::string_view(one.text).substr(0, seen));
      Tokens tokens = encode(*tokenizer, one.text.substr(0, cut));
      const Tokens rest = encode(*tokenizer, one.text.substr(cut));
      tokens.insert(tokens.end(), rest.begin(), rest.end());
      CHECK(tokens == whole);
    }
  }
}

TEST_CASE("a word of a million bytes and a million marks on one letter are encoded in no time") {
  // A quadratic way would take longer than the test may.
  const std::string word(1'000'000, 'a');
  std::string marks = "e";
  for (int i = 0; i < 250'000; ++i) marks += "\xcc\x81\xcc\xa7";  // out of order each time
  for (const std::string family : {"gpt2", "llama3", "qwen2"}) {
    const auto tokenizer = golden_tokenizer(family);
    CHECK(decode(*tokenizer, encode(*tokenizer, word)) == word);
    CHECK(decode(*tokenizer, encode(*tokenizer, marks)).size() > marks.size() - 10);
  }
}

TEST_CASE("documents begin and end with the special tokens that the file has") {
  const auto gpt2 = golden_tokenizer("gpt2");
  CHECK(!gpt2->begin_token().has_value());
  CHECK(gpt2->end_token() == 0);
  CHECK(gpt2->text_of(0).empty());
  const auto llama3 = golden_tokenizer("llama3");
  CHECK(llama3->begin_token() == 803);
  CHECK(llama3->end_token() == 804);
  CHECK(llama3->vocabulary() == 805);
  const auto qwen2 = golden_tokenizer("qwen2");
  CHECK(!qwen2->begin_token().has_value());
  CHECK(qwen2->end_token() == 900);
  CHECK(qwen2->text_of(903) == "<think>");
  CHECK(qwen2->name() != llama3->name());
  CHECK(qwen2->name().size() == kTokenizerNameMax);
}

}  // namespace starling::model
