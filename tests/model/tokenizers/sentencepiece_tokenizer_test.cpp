#include "model/tokenizers/sentencepiece_tokenizer.h"

#include <doctest/doctest.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "tests/support/sentencepiece_sample.h"

namespace starling::model {

using starling::testing::sample_model;
using starling::testing::sample_text;
using starling::testing::TrainerOptions;

namespace {

std::unique_ptr<Tokenizer> tokenizer_of(const std::string& file) {
  auto tokenizer = read_tokenizer_model(file);
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().message());
  return std::move(tokenizer).value();
}

std::vector<std::int32_t> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> tokens;
  tokenizer.encoder(SpecialTokens::kAsText)->encode(text, tokens);
  return tokens;
}

const std::string kIdentity = "identity";

TrainerOptions lossless(const std::string& type) {
  return {{"model_type", type},
          {"byte_fallback", "true"},
          {"normalization_rule_name", kIdentity},
          {"add_dummy_prefix", "false"},
          {"remove_extra_whitespaces", "false"},
          {"allow_whitespace_only_pieces", "true"}};
}

// Every way of normalizing, of spaces, of what is unknown.
std::vector<TrainerOptions> kinds() {
  return {lossless("unigram"),
          lossless("bpe"),
          {{"model_type", "unigram"}},
          {{"model_type", "bpe"}, {"character_coverage", "0.98"}},
          {{"model_type", "unigram"}, {"byte_fallback", "true"}, {"split_by_whitespace", "false"}},
          {{"model_type", "bpe"},
           {"byte_fallback", "true"},
           {"normalization_rule_name", "nfkc_cf"},
           {"user_defined_symbols", "<sep>,ﬁta,mon"}}};
}

std::vector<std::string> texts() {
  std::vector<std::string> all = {"",
                                  " ",
                                  "   ",
                                  "a",
                                  "  ta  ri ",
                                  "\n\n ta",
                                  "x<sep>",
                                  "<sep> <sep>y",
                                  "ﬁta ﬁ mono",
                                  "日本 ta\t12",
                                  "\u3000ta\u3000 ri",
                                  "Ångström ½ ™ e\u0301",
                                  "<s> </s> <unk> <0x41>"};
  all.push_back(std::string("zero\0byte", 9));
  for (std::uint64_t seed = 2; seed < 40; ++seed) {
    std::string text = sample_text(300, seed);
    Rng rng(seed);
    const char* odd[] = {" ", "  ", "\n", "é", "\u00a0", "\U0001f642", "q", "\u0301", "<sep>"};
    for (int i = 0; i < 5; ++i) {
      std::size_t at = rng.below(text.size());
      while ((static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U) --at;
      text.insert(at, odd[rng.below(std::size(odd))]);
    }
    all.push_back(text);
  }
  return all;
}

}  // namespace

TEST_CASE("tokens of a SentencePiece model are those that the library makes") {
  for (const TrainerOptions& options : kinds()) {
    const std::string file = sample_model(options);
    sentencepiece::SentencePieceProcessor library;
    REQUIRE(library.LoadFromSerializedProto(file).ok());
    const auto tokenizer = tokenizer_of(file);
    CAPTURE(options.at("model_type"));
    CAPTURE(options.size());
    CHECK(tokenizer->vocabulary() == library.GetPieceSize());
    CHECK(tokenizer->begin_token() == library.bos_id());
    CHECK(tokenizer->end_token() == library.eos_id());
    for (const std::string& text : texts()) {
      CAPTURE(text);
      std::vector<int> expected;
      REQUIRE(library.Encode(text, &expected).ok());
      CHECK(encode(*tokenizer, text) == expected);
      std::string decoded;
      REQUIRE(library.Decode(expected, &decoded).ok());
      CHECK(decode(*tokenizer, expected) == decoded);
    }
  }
}

TEST_CASE("user-defined pieces with spaces in them are found where the library finds them") {
  for (const char* type : {"unigram", "bpe"}) {
    for (const char* joins : {"true", "false"}) {
      CAPTURE(type);
      CAPTURE(joins);
      const std::string file = sample_model({{"model_type", type},
                                             {"byte_fallback", "true"},
                                             {"remove_extra_whitespaces", joins},
                                             {"user_defined_symbols", "ta ri,n  t,t▁a,▁▁,o▁▁t"}});
      sentencepiece::SentencePieceProcessor library;
      REQUIRE(library.LoadFromSerializedProto(file).ok());
      const auto tokenizer = tokenizer_of(file);
      std::vector<std::string> all = texts();
      all.insert(all.end(), {"ta ri", "mata ri ta  ri", "n  t", "on  to   n t", "t at a", "o  t"});
      for (const std::string& text : all) {
        CAPTURE(text);
        std::vector<int> expected;
        REQUIRE(library.Encode(text, &expected).ok());
        CHECK(encode(*tokenizer, text) == expected);
      }
    }
  }
}

TEST_CASE("a text comes back whole where the model normalizes nothing, whatever its bytes") {
  for (const std::string type : {"unigram", "bpe"}) {
    const auto tokenizer = tokenizer_of(sample_model(lossless(type)));
    Rng rng(3);
    std::string text = "caf\xe9 \xff\xfe \xe2\x96\x81 \xe2\x96 a\xe2\x96\x81\x62 ";
    for (int i = 0; i < 3000; ++i) text.push_back(static_cast<char>(rng.below(256)));
    CHECK(decode(*tokenizer, encode(*tokenizer, text)) == text);
    text = sample_text(3000, 9);
    CHECK(decode(*tokenizer, encode(*tokenizer, text)) == text);
  }
}

TEST_CASE("what a model without bytes does not know is lost, and decoding says so") {
  const auto tokenizer = tokenizer_of(sample_model({{"model_type", "unigram"}}));
  CHECK(decode(*tokenizer, encode(*tokenizer, "ta \U0001f642 ta")) == "ta  \u2047  ta");
  CHECK(decode(*tokenizer, encode(*tokenizer, "ta \xff ta")) == "ta  \u2047  ta");
}

TEST_CASE("a text cut where a SentencePiece tokenizer says has the tokens of the whole") {
  for (const TrainerOptions& options : kinds()) {
    const auto tokenizer = tokenizer_of(sample_model(options));
    const auto encoder = tokenizer->encoder(SpecialTokens::kAsText);
    for (std::uint64_t seed = 50; seed < 60; ++seed) {
      const std::string text = sample_text(4'000, seed);
      for (std::size_t bytes = 600; bytes < text.size(); bytes += 331) {
        const std::size_t cut = tokenizer->cut(std::string_view(text).substr(0, bytes));
        const bool reaches_across = options.contains("split_by_whitespace");
        CHECK((cut > 0 || reaches_across));
        std::vector<std::int32_t> tokens;
        if (cut > 0) encoder->encode(std::string_view(text).substr(0, cut), tokens);
        if (cut > 0) encoder->encode_rest(std::string_view(text).substr(cut), tokens);
        if (cut > 0) REQUIRE(tokens == encode(*tokenizer, text));
      }
    }
  }
}

TEST_CASE("the name of a SentencePiece tokenizer is that of its file") {
  std::string file = sample_model(lossless("bpe"));
  const std::string name(tokenizer_of(file)->name());
  CHECK(name.size() <= kTokenizerNameMax);
  CHECK(name.starts_with("spm-"));
  // A field that nobody knows changes the file only.
  file += std::string("\x9a\x0f\x01x", 4);
  CHECK(tokenizer_of(file)->name() != name);
}

}  // namespace starling::model
