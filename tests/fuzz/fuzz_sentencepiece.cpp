// Feeds the reader of tokenizer.model, and the tokenizers it makes, with hostile bytes. The first
// byte chooses: the rest is the file; the rest is the table of characters of a sound file; the rest
// is a text for a sound tokenizer. What a tokenizer accepts it must be able to encode, within its
// vocabulary.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.h"
#include "model/tokenizers/sentencepiece_tokenizer.h"

namespace {

using namespace starling;
using namespace starling::model;

constexpr std::string_view kText =
    "The cafe\xcc\x81 <e>  \xef\xac\x81n\n\xff\xe2\x96\x81\xe3\x80\x80.";

std::string varint(std::size_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  return out + static_cast<char>(value);
}

std::string message(int number, std::string_view bytes) {
  return varint(static_cast<std::size_t>(number) << 3 | 2) + varint(bytes.size()) +
         std::string(bytes);
}

std::string piece(std::string_view text, char kind = 1) {
  return message(1, message(1, text) + "\x18" + kind);
}

// With every kind of piece, and `characters` for its normalization.
std::string sound_file(std::string_view characters) {
  std::string file = piece("<unk>", 2) + piece("<s>", 3) + piece("<e>", 4);
  for (const char* text : {"\xe2\x96\x81", "T", "h", "e", "he", "fi", "n", "\n"}) {
    file += piece(text);
  }
  return file + message(3, message(2, characters));
}

void use(const Tokenizer& tokenizer, std::string_view text) {
  STARLING_ASSERT(tokenizer.name().size() <= kTokenizerNameMax);
  STARLING_ASSERT(tokenizer.cut(text) <= text.size());
  std::vector<std::int32_t> tokens;
  const auto encoder = tokenizer.encoder(SpecialTokens::kAsText);
  encoder->encode(text, tokens);
  encoder->encode_rest(text, tokens);
  for (const std::int32_t token : tokens) {
    STARLING_ASSERT(token >= 0);
    STARLING_ASSERT(token < tokenizer.vocabulary());
  }
  static_cast<void>(decode(tokenizer, tokens));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 < 2) {
    auto tokenizer = read_tokenizer_model(data[0] % 3 == 0 ? std::string(rest) : sound_file(rest));
    if (tokenizer.ok()) use(*tokenizer.value(), kText);
    return 0;
  }
  static const auto tokenizer = read_tokenizer_model(sound_file("")).value();
  use(*tokenizer, rest);
  return 0;
}
