#include "model/tokenizers/sentencepiece_json.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/tokenizers/character_map.h"

namespace starling::model {

namespace {

using nlohmann::json;

using Pieces = std::unordered_map<std::string_view, std::size_t>;

bool is_normal(const Piece& piece) { return piece.kind == PieceKind::kNormal; }

// No text has a plain space where pieces are looked for.
bool is_found(const Piece& piece) {
  return piece.kind == PieceKind::kUserDefined && piece.text.find(' ') == std::string::npos;
}

// The user-defined pieces that normalization leaves as they are. They can be found in the
// normalized text, as by the library; others only before, which cuts the text, so that each part
// is normalized as if it were one.
std::vector<const Piece*> kept_pieces(const SentencePieceModel& model) {
  std::vector<const Piece*> kept;
  auto read = CharacterMap::read(model.character_map);
  if (!read.ok()) return kept;
  const CharacterMap map = std::move(read).value();
  const auto is_kept = [&map](std::string_view text) {
    for (std::size_t at = 0; at < text.size(); ++at) {
      const CharacterMap::Match match = map.find(text.substr(at));
      if (match.bytes > 0 && text.substr(at, match.bytes) != match.replacement) return false;
    }
    return true;
  };
  for (const Piece& piece : model.pieces) {
    if (is_found(piece) && is_kept(with_spaces(piece.text))) kept.push_back(&piece);
  }
  return kept;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view three = bytes.substr(at, 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < three.size() ? static_cast<unsigned char>(three[i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= three.size() ? kDigits[bits >> (18 - 6 * i) & 63U] : '=';
    }
  }
  return text;
}

json replaced(const json& pattern, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", pattern}, {"content", content}};
}

// In the order of the library: characters, then spaces joined, then one put before the text.
json normalizer_of(const SentencePieceModel& model) {
  json steps = json::array();
  if (!model.character_map.empty()) {
    steps.push_back(
        {{"type", "Precompiled"}, {"precompiled_charsmap", base64(model.character_map)}});
  }
  if (model.joins_spaces) {
    steps.push_back(replaced({{"Regex", "\\A +| +\\z"}}, ""));
    steps.push_back(replaced({{"Regex", " {2,}"}}, " "));
  }
  if (model.space_before_text) {
    steps.push_back({{"type", "Prepend"}, {"prepend", kPieceSpace}});
  }
  steps.push_back(replaced({{"String", " "}}, kPieceSpace));
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

json decoder_of(const SentencePieceModel& model) {
  json steps = json::array(
      {replaced({{"String", kPieceSpace}}, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (model.space_before_text) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return {{"type", "Sequence"}, {"decoders", steps}};
}

// Cuts the normalized text around the pieces; of those that begin at the same place the longest.
json pre_tokenizer_of(std::vector<const Piece*> pieces) {
  if (pieces.empty()) return nullptr;
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece* left, const Piece* right) {
    return left->text.size() > right->text.size();
  });
  constexpr std::string_view kMarks = "\\^$.|?*+()[]{}";
  std::string pattern;
  for (const Piece* piece : pieces) {
    if (!pattern.empty()) pattern += '|';
    for (const char letter : piece->text) {
      if (kMarks.find(letter) != std::string_view::npos) pattern += '\\';
      pattern += letter;
    }
  }
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

// What is looked for in a text before anything else.
json added_tokens_of(const SentencePieceModel& model, const std::vector<const Piece*>& kept) {
  json tokens = json::array();
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const Piece& piece = model.pieces[i];
    const bool special = piece.kind == PieceKind::kControl || piece.kind == PieceKind::kUnknown;
    if (!special && !is_found(piece)) continue;
    if (std::binary_search(kept.begin(), kept.end(), &piece)) continue;  // in the same order
    tokens.push_back({{"id", i},
                      {"content", special ? piece.text : with_spaces(piece.text)},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", special}});
  }
  return tokens;
}

// Pairs of pieces that make a piece, those of the best first.
json merges_of(const SentencePieceModel& model, const Pieces& ids) {
  struct Merge {
    float score;
    std::size_t whole, left, right;
  };
  std::vector<Merge> merges;
  for (std::size_t whole = 0; whole < model.pieces.size(); ++whole) {
    const Piece& piece = model.pieces[whole];
    if (!is_normal(piece)) continue;
    const std::string_view text = piece.text;
    for (std::size_t at = 1; at < text.size(); ++at) {
      const auto left = ids.find(text.substr(0, at));
      if (left == ids.end()) continue;
      const auto right = ids.find(text.substr(at));
      if (right == ids.end()) continue;
      merges.push_back({piece.score, whole, left->second, right->second});
    }
  }
  const auto rank = [](const Merge& merge) {
    return std::tuple(-merge.score, merge.whole, merge.left, merge.right);
  };
  std::sort(merges.begin(), merges.end(),
            [&rank](const Merge& a, const Merge& b) { return rank(a) < rank(b); });
  json list = json::array();
  for (const Merge& merge : merges) {
    list.push_back(json::array({model.pieces[merge.left].text, model.pieces[merge.right].text}));
  }
  return list;
}

// `whole`: a part of the text that is a piece is that piece, whatever its merges say.
json bpe_of(const SentencePieceModel& model, std::string_view unknown, bool whole) {
  json vocabulary = json::object();
  Pieces ids;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    vocabulary[model.pieces[i].text] = i;
    if (is_normal(model.pieces[i])) ids.emplace(model.pieces[i].text, i);
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", true},
          {"byte_fallback", model.byte_fallback},
          {"ignore_merges", whole},
          {"vocab", vocabulary},
          {"merges", merges_of(model, ids)}};
}

json unigram_of(const SentencePieceModel& model, std::size_t unknown) {
  float least = 0, best = 0;
  for (const Piece& piece : model.pieces) {
    if (!is_normal(piece)) continue;
    least = std::min(least, piece.score);
    best = std::max(best, piece.score);
  }
  // The format finds every piece in texts; "<0x0A>" is one, and must never be the better way.
  const float never = least * static_cast<float>(kPieceBytesMax) - 1000;
  json vocabulary = json::array();
  for (const Piece& piece : model.pieces) {
    const bool literal = piece.kind == PieceKind::kByte || piece.kind == PieceKind::kUnused;
    double score = literal ? never : piece.score;
    // What the library gives for a user-defined piece: it all but always wins.
    if (piece.kind == PieceKind::kUserDefined) {
      score = static_cast<double>(piece.text.size()) * best - 0.1;
    }
    vocabulary.push_back(json::array({piece.text, score}));
  }
  return {{"type", "Unigram"},
          {"unk_id", unknown},
          {"vocab", vocabulary},
          {"byte_fallback", model.byte_fallback}};
}

json post_processor_of(const SentencePieceModel& model) {
  const auto begin =
      std::find_if(model.pieces.begin(), model.pieces.end(), [&model](const Piece& piece) {
        return piece.kind == PieceKind::kControl && piece.text == model.begin_name;
      });
  if (begin == model.pieces.end()) return nullptr;
  const auto mark = [&](int type) {
    return json{{"SpecialToken", {{"id", begin->text}, {"type_id", type}}}};
  };
  const auto text = [](const char* name, int type) {
    return json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  const json named = {
      {"id", begin->text}, {"ids", {begin - model.pieces.begin()}}, {"tokens", {begin->text}}};
  return {{"type", "TemplateProcessing"},
          {"single", json::array({mark(0), text("A", 0)})},
          {"pair", json::array({mark(0), text("A", 0), mark(1), text("B", 1)})},
          {"special_tokens", {{begin->text, named}}}};
}

}  // namespace

std::string sentencepiece_json(const SentencePieceModel& model) {
  const auto unknown =
      std::find_if(model.pieces.begin(), model.pieces.end(),
                   [](const Piece& piece) { return piece.kind == PieceKind::kUnknown; });
  const bool bpe = model.algorithm == SentencePieceModel::Algorithm::kBpe;
  const std::vector<const Piece*> kept = kept_pieces(model);
  const json object = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added_tokens_of(model, kept)},
      {"normalizer", normalizer_of(model)},
      {"pre_tokenizer", bpe ? pre_tokenizer_of(kept) : nullptr},
      {"post_processor", post_processor_of(model)},
      {"decoder", decoder_of(model)},
      {"model", bpe ? bpe_of(model, unknown->text, !kept.empty())
                    : unigram_of(model, static_cast<std::size_t>(unknown - model.pieces.begin()))}};
  return object.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace starling::model
