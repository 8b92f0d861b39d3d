#include "model/tokenizers/bpe_tokenizer.h"

#include <algorithm>

#include "base/assert.h"
#include "model/tokenizers/unicode.h"

namespace starling::model {

namespace {

class BpeEncoder final : public TokenEncoder {
 public:
  BpeEncoder(const BpeParts& parts, SpecialTokens special)
      : parts_(&parts), special_(special), merger_(parts.merges) {}

  void encode(std::string_view text, std::vector<std::int32_t>& tokens) override {
    split(parts_->added, text, tokens, [&](std::string_view between) {
      const std::string_view normal =
          parts_->normal_form_c ? normal_form_.normalize(between) : between;
      split(parts_->added_normalized, normal, tokens,
            [&](std::string_view plain) { encode_words(plain, tokens); });
    });
  }

 private:
  // Appends each added token that `text` holds, and gives what stands between them to `rest`.
  template <class Rest>
  void split(const AddedTokens& added, std::string_view text, std::vector<std::int32_t>& tokens,
             Rest rest) {
    std::size_t done = 0;
    for (auto match = added.find(text, 0); match; match = added.find(text, match->end)) {
      if (match->token->special && special_ == SpecialTokens::kAsText) continue;
      if (match->first > done) rest(text.substr(done, match->first - done));
      tokens.push_back(match->token->token);
      done = match->end;
    }
    if (done < text.size()) rest(text.substr(done));
  }

  void encode_words(std::string_view text, std::vector<std::int32_t>& tokens) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = word_end(text, at, parts_->pattern);
      encode_word(text.substr(at, end - at), tokens);
      at = end;
    }
  }

  void encode_word(std::string_view word, std::vector<std::int32_t>& tokens) {
    if (!parts_->whole_words.empty()) {
      word_ = word;
      const auto found = parts_->whole_words.find(word_);
      if (found != parts_->whole_words.end()) {
        tokens.push_back(found->second);
        return;
      }
    }
    merger_.encode(word, tokens);
  }

  const BpeParts* parts_;  // never null; the tokenizer's
  SpecialTokens special_;
  PairMerger merger_;
  NormalFormC normal_form_;
  std::string word_;  // scratch
};

}  // namespace

std::string_view BpeTokenizer::text_of(std::int32_t token) const {
  STARLING_ASSERT(token >= 0);
  STARLING_ASSERT(token < vocabulary());
  return parts_.texts[static_cast<std::size_t>(token)];
}

std::string BpeTokenizer::symbol_of(std::int32_t token) const {
  for (const AddedTokens* added : {&parts_.added, &parts_.added_normalized}) {
    for (const AddedToken& one : added->all()) {
      if (one.token == token) return one.text;
    }
  }
  return std::string(text_of(token));
}

std::unique_ptr<TokenEncoder> BpeTokenizer::encoder(SpecialTokens special) const {
  return std::make_unique<BpeEncoder>(parts_, special);
}

// The bytes of a text that may become one of those that are looked for in its normal form: of three
// at most one.
std::size_t BpeTokenizer::normalized_reach() const {
  return parts_.added_normalized.longest() * (parts_.normal_form_c ? 4 : 1);
}

// Those that are looked for in the normal form are.
bool BpeTokenizer::crosses_normalized(std::string_view text, std::size_t at) const {
  const AddedTokens& added = parts_.added_normalized;
  if (!parts_.normal_form_c || added.longest() == 0) return added.crosses(text, at);
  const std::size_t reach = normalized_reach(), before = std::min(at, reach);
  NormalFormC form;
  std::string around(form.normalize(text.substr(at - before, before)));
  const std::size_t middle = around.size();
  around += form.normalize(text.substr(at, reach));
  return added.crosses(around, middle);
}

std::size_t BpeTokenizer::cut(std::string_view text) const {
  // The last bytes may be the beginning of an added token that goes on in what follows.
  const std::size_t begun = std::max(parts_.added.longest(), normalized_reach());
  std::size_t at =
      word_cut(text.substr(0, text.size() - std::min(text.size(), begun)), parts_.pattern);
  while (at > 0 && (parts_.added.crosses(text, at) || crosses_normalized(text, at))) {
    at = word_cut(text.substr(0, at), parts_.pattern);
  }
  return at;
}

}  // namespace starling::model
