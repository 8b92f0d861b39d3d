#include "model/tokenizers/sentencepiece_tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/assert.h"
#include "base/hash.h"
#include "model/tokenizers/unicode.h"
#include "model/tokenizers/word_cache.h"

namespace starling::model {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // for what is no UTF-8

class SentencePieceEncoder final : public TokenEncoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceParts& parts) : parts_(&parts) {}

  void encode(std::string_view text, std::vector<std::int32_t>& tokens) override {
    normalize(text, true);
    encode_normal(tokens);
  }

  void encode_rest(std::string_view text, std::vector<std::int32_t>& tokens) override {
    normalize(text, false);
    encode_normal(tokens);
  }

 private:
  // --- normalization ---

  void normalize(std::string_view text, bool begins) {
    normal_.clear();
    if (text.empty()) return;
    if (begins && parts_->space_before_text) normal_ += ' ';
    after_space_ = begins && parts_->joins_spaces;
    std::size_t done = 0;
    const AddedTokens& kept = parts_->not_normalized;
    for (auto match = kept.find(text, 0); match; match = kept.find(text, match->end)) {
      map_characters(text.substr(done, match->first - done));
      append(text.substr(match->first, match->end - match->first));
      done = match->end;
    }
    map_characters(text.substr(done));
    if (!parts_->joins_spaces) return;
    while (normal_.ends_with(' ')) normal_.pop_back();
  }

  void map_characters(std::string_view text) {
    if (parts_->characters.empty() && !parts_->joins_spaces && !parts_->of_bytes.empty()) {
      normal_ += text;
      return;
    }
    for (std::size_t at = 0; at < text.size();) {
      const CharacterMap::Match match = parts_->characters.find(text.substr(at));
      if (match.bytes > 0) {
        append(match.replacement);
        at += match.bytes;
        continue;
      }
      const Character character = character_at(text, at);
      const bool lost = character.code == kNoCharacter && parts_->of_bytes.empty();
      append(lost ? kReplacement : text.substr(at, character.bytes));
      at += character.bytes;
    }
  }

  void append(std::string_view text) {
    while (after_space_ && text.starts_with(' ')) text.remove_prefix(1);
    if (text.empty()) return;
    normal_ += text;
    after_space_ = parts_->joins_spaces && text.ends_with(' ');
  }

  // --- segmentation ---

  void encode_normal(std::vector<std::int32_t>& tokens) {
    const std::string_view text = normal_;
    const AddedTokens& added = parts_->user_defined;
    std::size_t done = 0;
    for (auto match = added.find(text, 0); match; match = added.find(text, match->end)) {
      encode_between(text.substr(done, match->first - done), tokens);
      tokens.push_back(match->token->token);
      done = match->end;
    }
    encode_between(text.substr(done), tokens);
  }

  void encode_between(std::string_view text, std::vector<std::int32_t>& tokens) {
    const bool has_bytes = !parts_->of_bytes.empty();
    std::size_t word = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t bytes = character_at(text, at).bytes;
      const std::string_view character = text.substr(at, bytes);
      const bool as_bytes = has_bytes && (character == kPieceSpace || find_invalid(character) == 0);
      if (as_bytes || (at > 0 && word_ends(text, at))) {
        encode_word(text.substr(word, at - word), tokens);
        word = at;
      }
      at += bytes;
      if (!as_bytes) continue;
      append_bytes(character, tokens);
      word = at;
    }
    encode_word(text.substr(word), tokens);
  }

  bool word_ends(std::string_view text, std::size_t at) const {
    if (parts_->words_end_at_spaces && text[at] == ' ' && text[at - 1] != ' ') return true;
    return parts_->words_end_at_lines && text[at - 1] == '\n';
  }

  void append_bytes(std::string_view text, std::vector<std::int32_t>& tokens) const {
    for (const char byte : text) {
      tokens.push_back(parts_->of_bytes[static_cast<unsigned char>(byte)]);
    }
  }

  void encode_word(std::string_view word, std::vector<std::int32_t>& tokens) {
    if (word.empty()) return;
    const auto known = cache_.find(word);
    tokens.insert(tokens.end(), known.begin(), known.end());
    if (!known.empty()) return;
    segment(word, found_);
    tokens.insert(tokens.end(), found_.begin(), found_.end());
    cache_.put(word, found_);
  }

  // A word that the library refuses is what the model has for what it does not know.
  void segment(std::string_view word, std::vector<int>& found) const {
    found.clear();
    try {
      if (parts_->library->Encode(word, &found).ok() && !found.empty()) return;
    } catch (const std::exception&) {  // below
    }
    found.clear();
    if (parts_->of_bytes.empty()) {
      found.push_back(parts_->unknown);
    } else {
      append_bytes(word, found);
    }
  }

  const SentencePieceParts* parts_;  // never null; the tokenizer's
  std::string normal_;
  bool after_space_ = false;
  WordCache cache_;
  std::vector<int> found_;  // scratch
};

// --- reading ---

std::string text_of_piece(const Piece& piece, const SentencePieceModel& model) {
  switch (piece.kind) {
    case PieceKind::kUnknown: return model.unknown_text;
    case PieceKind::kControl: return {};
    case PieceKind::kByte: return std::string(1, static_cast<char>(byte_of_piece(piece.text)));
    default: return with_spaces(piece.text);
  }
}

// Finds out where words end whatever the text is: where no piece goes on.
void find_word_ends(const SentencePieceModel& model, SentencePieceParts& parts) {
  bool has_space = model.byte_fallback, has_line_end = model.byte_fallback;
  parts.words_end_at_spaces = parts.words_end_at_lines = true;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const PieceKind kind = model.pieces[i].kind;
    if (kind != PieceKind::kNormal && kind != PieceKind::kUserDefined &&
        kind != PieceKind::kUnused) {
      continue;
    }
    const std::string& text = parts.texts[i];
    has_space = has_space || text == " ";
    has_line_end = has_line_end || text == "\n";
    for (std::size_t at = 1; at < text.size(); ++at) {
      if (text[at] == ' ' && text[at - 1] != ' ') parts.words_end_at_spaces = false;
      if (text[at - 1] == '\n') parts.words_end_at_lines = false;
    }
  }
  // What is unknown on both sides would be one token for the library.
  parts.words_end_at_spaces = parts.words_end_at_spaces && has_space;
  parts.words_end_at_lines = parts.words_end_at_lines && has_line_end;
}

void take_pieces(const SentencePieceModel& model, SentencePieceParts& parts) {
  const bool bpe = model.algorithm == SentencePieceModel::Algorithm::kBpe;
  std::vector<AddedToken> user_defined, not_normalized;
  if (model.byte_fallback) parts.of_bytes.resize(256);
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const Piece& piece = model.pieces[i];
    const auto token = static_cast<std::int32_t>(i);
    parts.texts.push_back(text_of_piece(piece, model));
    const std::string& text = parts.texts.back();
    switch (piece.kind) {
      case PieceKind::kUnknown: parts.unknown = token; break;
      case PieceKind::kControl:
        if (piece.text == model.begin_name) parts.begin_token = token;
        if (piece.text == model.end_name) parts.end_token = token;
        break;
      case PieceKind::kByte:
        parts.of_bytes[static_cast<std::size_t>(byte_of_piece(piece.text))] = token;
        break;
      case PieceKind::kUserDefined:
        // Normalized texts have their spaces as pieces write them, others do not: the library finds
        // a piece with a plain space before it normalizes alone.
        if (bpe && piece.text.find(' ') == std::string::npos) {
          user_defined.push_back({text, token, false});
        }
        if (piece.text.find(kPieceSpace) == std::string::npos) {
          not_normalized.push_back({text, token, false});
        }
        break;
      default: break;
    }
  }
  parts.user_defined = AddedTokens(std::move(user_defined));
  parts.not_normalized = AddedTokens(std::move(not_normalized));
}

Status load_library(const SentencePieceModel& model, SentencePieceParts& parts) {
  try {
    const auto loaded = parts.library->LoadFromSerializedProto(segmentation_file(model));
    if (loaded.ok()) return ok_status();
    return Error(ErrorCode::kInvalidConfig, fmt::format("tokenizer.model: {}", loaded.ToString()));
  } catch (const std::exception& error) {
    return Error(ErrorCode::kInvalidConfig, fmt::format("tokenizer.model: {}", error.what()));
  }
}

}  // namespace

SentencePieceParts::SentencePieceParts()
    : library(std::make_unique<sentencepiece::SentencePieceProcessor>()) {}
SentencePieceParts::SentencePieceParts(SentencePieceParts&&) noexcept = default;
SentencePieceParts::~SentencePieceParts() = default;

std::string_view SentencePieceTokenizer::text_of(std::int32_t token) const {
  STARLING_ASSERT(token >= 0);
  STARLING_ASSERT(token < vocabulary());
  return parts_.texts[static_cast<std::size_t>(token)];
}

std::string SentencePieceTokenizer::symbol_of(std::int32_t token) const {
  const std::string_view text = text_of(token);
  return text.empty() ? parts_.library->IdToPiece(token) : std::string(text);
}

std::unique_ptr<TokenEncoder> SentencePieceTokenizer::encoder(SpecialTokens) const {
  return std::make_unique<SentencePieceEncoder>(parts_);
}

// Whether a word ends at `at`, and normalization does not reach across.
bool SentencePieceTokenizer::cuts_at(std::string_view text, std::size_t at) const {
  const auto as_it_is = [&](std::size_t from) {
    return parts_.characters.find(text.substr(from)).bytes == 0;
  };
  const char before = text[at - 1];
  const bool at_space = parts_.words_end_at_spaces && text[at] == ' ' && before > ' ' &&
                        before < 0x7f && as_it_is(at);
  const bool at_line = parts_.words_end_at_lines && before == '\n';
  if (!(at_space || at_line) || !as_it_is(at - 1)) return false;
  for (std::size_t from = at - std::min(at, CharacterMap::kKeyBytesMax); from < at; ++from) {
    if (from + parts_.characters.find(text.substr(from)).bytes > at) return false;
  }
  return !parts_.user_defined.crosses(text, at) && !parts_.not_normalized.crosses(text, at);
}

std::size_t SentencePieceTokenizer::cut(std::string_view text) const {
  // What follows `text` may make a key or a piece of its end.
  if (text.size() <= kPieceBytesMax) return 0;
  for (std::size_t at = text.size() - kPieceBytesMax; at > 0; --at) {
    if (cuts_at(text, at)) return at;
  }
  return 0;
}

Result<std::unique_ptr<Tokenizer>> read_tokenizer_model(std::string_view file) {
  auto model = read_sentencepiece_model(file);
  if (!model.ok()) return std::move(model).error();
  SentencePieceParts parts;
  parts.name = fmt::format("{}{:016x}", kTokenizerModelPrefix, digest(file));
  parts.space_before_text = model.value().space_before_text;
  parts.joins_spaces = model.value().joins_spaces;
  take_pieces(model.value(), parts);
  find_word_ends(model.value(), parts);
  auto characters = CharacterMap::read(std::move(model.value().character_map));
  if (!characters.ok()) return std::move(characters).error();
  parts.characters = std::move(characters).value();
  Status loaded = load_library(model.value(), parts);
  if (!loaded.ok()) return std::move(loaded).error();
  return std::unique_ptr<Tokenizer>(std::make_unique<SentencePieceTokenizer>(std::move(parts)));
}

}  // namespace starling::model
