// Reads a SentencePiece model file, unigram or BPE, and makes the tokens that the library makes of
// the same text: normalized as the file says, cut into words where no piece can reach across, and
// each word given to the library.
//
// It differs from the library where that would lose text: with byte_fallback, bytes that are no
// UTF-8, and U+2581, which would come back as a space, are encoded byte by byte. Control pieces
// ("<s>") in a text are text, whatever is asked: the format has no names for them in texts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/tokenizers/added_tokens.h"
#include "model/tokenizers/character_map.h"
#include "model/tokenizers/sentencepiece_model.h"
#include "model/tokenizers/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace starling::model {

// What a SentencePieceTokenizer is made of. Constant after construction.
struct SentencePieceParts {
  SentencePieceParts();
  SentencePieceParts(SentencePieceParts&&) noexcept;
  ~SentencePieceParts();

  std::string name;
  std::vector<std::string> texts;      // of each token
  std::vector<std::int32_t> of_bytes;  // 256 tokens; empty without byte_fallback
  std::int32_t unknown = 0;
  AddedTokens user_defined;    // of BPE: found in the normalized text; unigram weighs them
  AddedTokens not_normalized;  // those of them that normalization leaves alone
  CharacterMap characters;
  bool space_before_text = true, joins_spaces = true;
  // Whether every token ends before a space that follows something else, and behind a line end.
  bool words_end_at_spaces = false, words_end_at_lines = false;
  std::optional<std::int32_t> begin_token, end_token;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> library;  // never null
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(SentencePieceParts parts) : parts_(std::move(parts)) {}

  std::string_view name() const override { return parts_.name; }
  std::int32_t vocabulary() const override {
    return static_cast<std::int32_t>(parts_.texts.size());
  }
  std::optional<std::int32_t> begin_token() const override { return parts_.begin_token; }
  std::optional<std::int32_t> end_token() const override { return parts_.end_token; }
  std::string_view text_of(std::int32_t token) const override;
  std::string symbol_of(std::int32_t token) const override;
  bool puts_space_before() const override { return parts_.space_before_text; }
  std::unique_ptr<TokenEncoder> encoder(SpecialTokens special) const override;
  std::size_t cut(std::string_view text) const override;

 private:
  bool cuts_at(std::string_view text, std::size_t at) const;

  SentencePieceParts parts_;
};

inline constexpr std::string_view kTokenizerModelPrefix = "spm-";

// Its name is kTokenizerModelPrefix and the digest of `file`, which may be hostile.
Result<std::unique_ptr<Tokenizer>> read_tokenizer_model(std::string_view file);

}  // namespace starling::model
