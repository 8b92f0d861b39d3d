#include "model/sentencepiece_json.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace starling::model {

namespace {

using nlohmann::json;

using Pieces = std::unordered_map<std::string_view, std::size_t>;

bool joins(const Piece& piece) {
  return piece.kind == PieceKind::kNormal || piece.kind == PieceKind::kUserDefined;
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

// What is looked for in a text before anything else.
json added_tokens_of(const SentencePieceModel& model) {
  json tokens = json::array();
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const Piece& piece = model.pieces[i];
    const bool special = piece.kind == PieceKind::kControl || piece.kind == PieceKind::kUnknown;
    if (!special && piece.kind != PieceKind::kUserDefined) continue;
    std::string content = piece.text;
    for (std::size_t at; !special && (at = content.find(kPieceSpace)) != std::string::npos;) {
      content.replace(at, kPieceSpace.size(), " ");
    }
    tokens.push_back({{"id", i},
                      {"content", content},
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
    if (!joins(piece)) continue;
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

json bpe_of(const SentencePieceModel& model, std::string_view unknown) {
  json vocabulary = json::object();
  Pieces ids;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    vocabulary[model.pieces[i].text] = i;
    if (joins(model.pieces[i])) ids.emplace(model.pieces[i].text, i);
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", true},
          {"byte_fallback", model.byte_fallback},
          {"ignore_merges", false},
          {"vocab", vocabulary},
          {"merges", merges_of(model, ids)}};
}

json unigram_of(const SentencePieceModel& model, std::size_t unknown) {
  float least = 0;
  for (const Piece& piece : model.pieces) {
    if (joins(piece)) least = std::min(least, piece.score);
  }
  // The format finds every piece in texts; "<0x0A>" is one, and must never be the better way.
  const float never = least * static_cast<float>(kPieceBytesMax) - 1000;
  json vocabulary = json::array();
  for (const Piece& piece : model.pieces) {
    const bool literal = piece.kind == PieceKind::kByte || piece.kind == PieceKind::kUnused;
    vocabulary.push_back(json::array({piece.text, literal ? never : piece.score}));
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
  const json object = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added_tokens_of(model)},
      {"normalizer", normalizer_of(model)},
      {"pre_tokenizer", nullptr},
      {"post_processor", post_processor_of(model)},
      {"decoder", decoder_of(model)},
      {"model", bpe ? bpe_of(model, unknown->text)
                    : unigram_of(model, static_cast<std::size_t>(unknown - model.pieces.begin()))}};
  return object.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace starling::model
