// Tokenizer: text to numbers and back. One interface for bytes and for every file that
// tokenizer_json.h and sentencepiece_tokenizer.h can read.
//
// A Tokenizer does not change after it was made: any thread may use it. Text is bytes of any kind;
// what is no UTF-8 is encoded too and never an error. An encoder belongs to one thread, keeps
// scratch memory and a cache, and must not outlive its tokenizer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace starling::model {

class TokenEncoder {
 public:
  virtual ~TokenEncoder() = default;
  TokenEncoder() = default;
  TokenEncoder(const TokenEncoder&) = delete;
  TokenEncoder& operator=(const TokenEncoder&) = delete;

  // Appends the tokens of `text`, a whole one or the beginning of one, to `tokens`.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& tokens) = 0;
  // The same for what follows where a text was cut: nothing is put before it.
  virtual void encode_rest(std::string_view text, std::vector<std::int32_t>& tokens) {
    encode(text, tokens);
  }
};

// What becomes of the names of special tokens ("<|endoftext|>") that stand in a text. Only a text
// of one's own may command; strangers' text is text.
enum class SpecialTokens : std::uint8_t { kAsText, kRecognised };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // At most kTokenizerNameMax bytes; equal names give equal tokens.
  virtual std::string_view name() const = 0;
  // Every token is in [0, vocabulary()).
  virtual std::int32_t vocabulary() const = 0;
  // What stands before and after a document, if anything.
  virtual std::optional<std::int32_t> begin_token() const = 0;
  virtual std::optional<std::int32_t> end_token() const = 0;

  // The text that a token of the vocabulary stands for: empty for special tokens, a part of a
  // character for some. The text of several tokens is that of each, one after the other.
  virtual std::string_view text_of(std::int32_t token) const = 0;
  // What people write for a token: the name of a special one, the text of any other.
  virtual std::string symbol_of(std::int32_t token) const { return std::string(text_of(token)); }
  // Whether encode() puts a space before a text, which is not of it when it is decoded.
  virtual bool puts_space_before() const { return false; }

  virtual std::unique_ptr<TokenEncoder> encoder(SpecialTokens special) const = 0;

  // Where a long text may be cut: the length of a prefix, as long as possible, so that it and the
  // rest, whatever follows there, give on their own the tokens of the whole. 0: nowhere.
  virtual std::size_t cut(std::string_view text) const = 0;
};

inline constexpr std::size_t kTokenizerNameMax = 20;
// Names become those of files.
inline bool is_tokenizer_name(std::string_view name) {
  return !name.empty() && name.size() <= kTokenizerNameMax &&
         std::all_of(name.begin(), name.end(), [](char letter) {
           return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') ||
                  letter == '-';
         });
}

// Of tokens that begin a text.
std::string decode(const Tokenizer& tokenizer, std::span<const std::int32_t> tokens);

// The length of `text` without a character at its end that has only begun: what may be shown now.
std::size_t complete_characters(std::string_view text);

// One token per byte, no tables, no files. Any text survives encode and decode unchanged.
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr std::string_view kName = "bytes";
  static constexpr std::int32_t kVocabulary = 256;

  std::string_view name() const override { return kName; }
  std::int32_t vocabulary() const override { return kVocabulary; }
  std::optional<std::int32_t> begin_token() const override { return std::nullopt; }
  std::optional<std::int32_t> end_token() const override { return std::nullopt; }
  std::string_view text_of(std::int32_t token) const override;
  std::unique_ptr<TokenEncoder> encoder(SpecialTokens special) const override;
  std::size_t cut(std::string_view text) const override { return text.size(); }
};

}  // namespace starling::model
