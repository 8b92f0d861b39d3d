#include "model/tokenizers/tokenizer.h"

#include <algorithm>
#include <array>

#include "base/assert.h"

namespace starling::model {

namespace {

constexpr std::array<char, 256> every_byte() {
  std::array<char, 256> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  return bytes;
}

constexpr std::array<char, 256> kBytes = every_byte();

class ByteEncoder final : public TokenEncoder {
 public:
  void encode(std::string_view text, std::vector<std::int32_t>& tokens) override {
    tokens.reserve(tokens.size() + text.size());
    for (const char letter : text) tokens.push_back(static_cast<unsigned char>(letter));
  }
};

// Bytes of the character that begins with `lead`; 1 for what begins none.
std::size_t character_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte >= 0xf0 && byte < 0xf8) return 4;
  if (byte >= 0xe0 && byte < 0xf0) return 3;
  return byte >= 0xc0 && byte < 0xe0 ? 2 : 1;
}

}  // namespace

std::string decode(const Tokenizer& tokenizer, std::span<const std::int32_t> tokens) {
  std::string text;
  for (const std::int32_t token : tokens) text += tokenizer.text_of(token);
  if (tokenizer.puts_space_before() && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::size_t complete_characters(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const char letter = text[text.size() - back];
    const bool continues = (static_cast<unsigned char>(letter) & 0xc0U) == 0x80U;
    if (!continues) return character_bytes(letter) > back ? text.size() - back : text.size();
  }
  return text.size();
}

std::string_view ByteTokenizer::text_of(std::int32_t token) const {
  STARLING_ASSERT(token >= 0);
  STARLING_ASSERT(token < kVocabulary);
  return {&kBytes[static_cast<std::size_t>(token)], 1};
}

std::unique_ptr<TokenEncoder> ByteTokenizer::encoder(SpecialTokens) const {
  return std::make_unique<ByteEncoder>();
}

}  // namespace starling::model
