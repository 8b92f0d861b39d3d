#include "model/tokenizers/sentencepiece_model.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "model/tokenizers/character_map.h"
#include "model/tokenizers/sentencepiece_tokenizer.h"
#include "tests/support/sentencepiece_sample.h"

namespace starling::model {

namespace {

// A message of protocol buffers: the field of bytes, all shorter than 128.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

std::string number_field(int number, int value) {
  const int tag = number << 3;
  std::string out;
  if (tag >= 128) out = {static_cast<char>(tag | 128), static_cast<char>(tag >> 7)};
  if (tag < 128) out = {static_cast<char>(tag)};
  return out + static_cast<char>(value);
}

std::string piece(const std::string& text, int kind = 1) {
  return field(1, field(1, text) + number_field(3, kind));
}

const std::string kSmall = piece("<unk>", 2) + piece("<s>", 3) + piece("a");

std::string fault_of(const std::string& file) {
  auto read = read_tokenizer_model(file);
  return read.ok() ? "" : read.error().message();
}

}  // namespace

TEST_CASE("a small model file is read field by field") {
  auto read = read_sentencepiece_model(kSmall + field(2, number_field(3, 2)) +
                                       field(3, number_field(3, 0) + number_field(4, 0)));
  REQUIRE(read.ok());
  const SentencePieceModel& model = read.value();
  REQUIRE(model.pieces.size() == 3);
  CHECK(model.pieces[2].text == "a");
  CHECK(model.pieces[1].kind == PieceKind::kControl);
  CHECK(model.algorithm == SentencePieceModel::Algorithm::kBpe);
  CHECK(!model.space_before_text);
  CHECK(!model.joins_spaces);
  CHECK(fault_of(kSmall) == "");
}

TEST_CASE("what is not read in a model file is named") {
  const auto names = [](const std::string& file, const std::string& part) {
    const std::string fault = fault_of(file);
    CAPTURE(fault);
    CHECK(fault.starts_with("tokenizer.model: "));
    CHECK(fault.find(part) != std::string::npos);
  };
  names("", "no pieces");
  names("IQ== 0\nIg== 1\n", "no SentencePiece model");
  names("{\"model\": {}}", "no SentencePiece model");
  names(piece("a"), "0 pieces for what is unknown");
  names(kSmall + piece("<x>", 2), "2 pieces for what is unknown");
  names(kSmall + piece("a"), "piece 3 is there twice");
  names(kSmall + piece(""), "piece 3 has 0 bytes");
  names(kSmall + piece("\xff"), "piece 3 is no UTF-8");
  names(kSmall + piece(std::string("b\0c", 3)), "piece 3 is no UTF-8, or holds a zero");
  names(kSmall + field(1, field(1, "b") + std::string("\x15\0\0\x80\x7f", 5)), "no score");
  names(kSmall + piece("<0x41>", 6), "byte_fallback is off");
  names(kSmall + field(2, number_field(35, 1)), "bytes are missing");
  names(kSmall + field(2, number_field(3, 3)), "neither unigram nor bpe");
  names(kSmall + field(2, number_field(24, 1)), "treat_whitespace_as_suffix");
  names(kSmall + field(3, number_field(5, 0)), "escape_whitespaces");
  names(kSmall + field(3, field(2, "123")), "normalization is broken");
  names(kSmall + field(5, field(2, "123")), "denormalizer_spec");
}

TEST_CASE("a model file that is cut short or damaged is refused or usable, and never believed") {
  const std::string whole = starling::testing::sample_model({{"vocab_size", "200"}});
  Rng rng(7);
  for (int i = 0; i < 300; ++i) {
    std::string file = whole.substr(0, i % 3 == 0 ? rng.below(whole.size()) : whole.size());
    for (int k = 0; i % 3 != 0 && k < 3; ++k) {
      file[rng.below(file.size())] = static_cast<char>(rng.below(256));
    }
    auto read = read_tokenizer_model(file);
    if (!read.ok()) continue;
    std::vector<std::int32_t> tokens;
    read.value()->encoder(SpecialTokens::kAsText)->encode("Ta ½ \u3000 12\xff", tokens);
    for (const std::int32_t token : tokens) REQUIRE(token < read.value()->vocabulary());
  }
}

TEST_CASE("no walk through a hostile table of characters leaves it") {
  Rng rng(8);
  for (int i = 0; i < 300; ++i) {
    const std::size_t units = 1 + rng.below(300);
    std::string file = {static_cast<char>(units * 4), static_cast<char>(units * 4 >> 8), 0, 0};
    for (std::size_t k = 0; k < units; ++k) {
      // Children near by and the bytes of the text, so that walks are long.
      const std::uint64_t unit = rng.below(64) << 10 | rng.below(2) << 8 | rng.below(64);
      for (unsigned shift = 0; shift < 32; shift += 8) file += static_cast<char>(unit >> shift);
    }
    for (std::uint64_t k = 0; k < rng.below(40); ++k) file += static_cast<char>(rng.below(256));
    file += '\0';
    auto map = CharacterMap::read(file);
    REQUIRE(map.ok());
    std::string text;
    for (int k = 0; k < 200; ++k) text += static_cast<char>(rng.below(64));
    for (std::size_t at = 0; at < text.size(); ++at) {
      const auto match = map.value().find(std::string_view(text).substr(at));
      REQUIRE(match.bytes <= CharacterMap::kKeyBytesMax);
      REQUIRE(match.replacement.size() <= CharacterMap::kReplacementBytesMax);
    }
  }
}

}  // namespace starling::model
