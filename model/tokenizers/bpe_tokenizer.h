// Byte-level byte pair encoding, as the tokenizers of GPT-2, Llama 3 and Qwen do it: added tokens
// are found first, the text between them is brought into normal form C where the tokenizer wants
// that, cut into words, and the bytes of each word are merged. Tokens are those of the reference
// implementation, number by number (scripts/make_tokenizer_goldens.py asks it).
//
// Bytes that are no UTF-8, which the reference does not take, are encoded like any others; only
// where text is normalized does decoding not give back what was encoded, byte by byte.
//
// Made by tokenizer_json.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/tokenizers/added_tokens.h"
#include "model/tokenizers/pair_merges.h"
#include "model/tokenizers/tokenizer.h"
#include "model/tokenizers/word_splitter.h"

namespace starling::model {

// All that a tokenizer.json says and that we understand, checked: every token is in
// [0, texts.size()).
struct BpeParts {
  std::string name;
  std::vector<std::string> texts;  // of each token; empty for special ones and for gaps
  PairMerges merges;
  WordPattern pattern = WordPattern::kGpt2;
  bool normal_form_c = false;
  // Words that are a token as they are, whatever the merges would make of them.
  std::unordered_map<std::string, std::int32_t> whole_words;
  AddedTokens added;             // found in the text as it is
  AddedTokens added_normalized;  // found in the normalized text
  std::optional<std::int32_t> begin_token, end_token;
};

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeParts parts) : parts_(std::move(parts)) {}

  std::string_view name() const override { return parts_.name; }
  std::int32_t vocabulary() const override {
    return static_cast<std::int32_t>(parts_.texts.size());
  }
  std::optional<std::int32_t> begin_token() const override { return parts_.begin_token; }
  std::optional<std::int32_t> end_token() const override { return parts_.end_token; }
  std::string_view text_of(std::int32_t token) const override;
  std::string symbol_of(std::int32_t token) const override;
  std::unique_ptr<TokenEncoder> encoder(SpecialTokens special) const override;
  std::size_t cut(std::string_view text) const override;

 private:
  std::size_t normalized_reach() const;
  bool crosses_normalized(std::string_view text, std::size_t at) const;
  BpeParts parts_;
};

}  // namespace starling::model
