#include "model/tokenizers/sentencepiece_json.h"

#include <doctest/doctest.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/sentencepiece_sample.h"

namespace starling::model {

using nlohmann::json;
using starling::testing::sample_model;
using starling::testing::sample_text;
using starling::testing::TrainerOptions;

namespace {

// A reader of the format, as far as models without a table of characters need it.
class Reader {
 public:
  explicit Reader(const std::string& text) : file_(json::parse(text)) {
    const json& model = file_["model"];
    if (model["type"] == "BPE") {
      for (const auto& [piece, id] : model["vocab"].items()) ids_[piece] = id;
      for (const json& pair : model["merges"]) {
        ranks_.emplace(std::pair(std::string(pair[0]), std::string(pair[1])), ranks_.size());
      }
      return;
    }
    for (std::size_t i = 0; i < model["vocab"].size(); ++i) {
      ids_[model["vocab"][i][0]] = static_cast<int>(i);
      scores_.push_back(model["vocab"][i][1]);
    }
  }

  std::vector<int> encode(std::string text) const {
    for (const json& step : file_["normalizer"]["normalizers"]) normalize(step, text);
    const json& split = file_["pre_tokenizer"];
    std::vector<int> tokens;
    if (split.is_null()) {
      append(text, tokens);
      return tokens;
    }
    const std::regex pattern(split["pattern"]["Regex"].get<std::string>());
    std::size_t done = 0;
    for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end;
         ++match) {
      const auto at = static_cast<std::size_t>(match->position());
      append(text.substr(done, at - done), tokens);
      append(match->str(), tokens);
      done = at + static_cast<std::size_t>(match->length());
    }
    append(text.substr(done), tokens);
    return tokens;
  }

 private:
  void append(const std::string& text, std::vector<int>& tokens) const {
    const json& model = file_["model"];
    if (text.empty()) return;
    std::vector<std::string> pieces = {text};
    if (model["type"] != "BPE") {
      pieces = likeliest(text);
    } else if (!model["ignore_merges"] || ids_.count(text) == 0) {
      pieces = merged(text);
    }
    for (const std::string& piece : pieces) {
      const auto found = ids_.find(piece);
      if (found != ids_.end()) {
        tokens.push_back(found->second);
        continue;
      }
      for (const char byte : piece) {
        char name[7];
        std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte) & 0xffU);
        tokens.push_back(ids_.at(name));
      }
    }
  }

  static void normalize(const json& step, std::string& text) {
    if (step["type"] == "Prepend") {
      if (!text.empty()) text = std::string(step["prepend"]) + text;
      return;
    }
    REQUIRE(step["type"] == "Replace");
    const std::string to = step["content"];
    if (step["pattern"].contains("Regex")) {
      const std::string regex = step["pattern"]["Regex"];  // which knows begin and end as \A, \z
      text = std::regex_replace(text, std::regex(regex == " {2,}" ? regex : "^ +| +$"), to);
      return;
    }
    const std::string from = step["pattern"]["String"];
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  }

  static std::vector<std::string> characters(const std::string& text) {
    std::vector<std::string> all;
    for (const char byte : text) {
      if (all.empty() || (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U) all.emplace_back();
      all.back() += byte;
    }
    return all;
  }

  std::vector<std::string> merged(const std::string& text) const {
    std::vector<std::string> symbols = characters(text);
    while (true) {
      std::size_t best = ranks_.size();
      std::size_t place = 0;
      for (std::size_t i = 1; i < symbols.size(); ++i) {
        const auto found = ranks_.find({symbols[i - 1], symbols[i]});
        if (found == ranks_.end() || found->second >= best) continue;
        best = found->second;
        place = i;
      }
      if (place == 0) return symbols;
      symbols[place - 1] += symbols[place];
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(place));
    }
  }

  std::vector<std::string> likeliest(const std::string& text) const {
    const std::vector<std::string> all = characters(text);
    const double unknown = *std::min_element(scores_.begin(), scores_.end()) - 10;
    std::vector<double> best(all.size() + 1, -std::numeric_limits<double>::infinity());
    std::vector<std::size_t> from(all.size() + 1);
    best[0] = 0;
    for (std::size_t begin = 0; begin < all.size(); ++begin) {
      std::string piece;
      for (std::size_t end = begin + 1; end <= all.size(); ++end) {
        piece += all[end - 1];
        const auto found = ids_.find(piece);
        if (found == ids_.end() && end > begin + 1) continue;
        const double score =
            found == ids_.end() ? unknown : scores_[static_cast<std::size_t>(found->second)];
        if (best[begin] + score <= best[end]) continue;
        best[end] = best[begin] + score;
        from[end] = begin;
      }
    }
    std::vector<std::string> pieces;
    for (std::size_t end = all.size(); end > 0; end = from[end]) {
      std::string& piece = pieces.emplace_back();
      for (std::size_t i = from[end]; i < end; ++i) piece += all[i];
    }
    std::reverse(pieces.begin(), pieces.end());
    return pieces;
  }

  json file_;
  std::map<std::string, int> ids_;
  std::vector<double> scores_;
  std::map<std::pair<std::string, std::string>, std::size_t> ranks_;
};

TrainerOptions identity(const std::string& type, bool space_before) {
  return {{"model_type", type},
          {"byte_fallback", "true"},
          {"normalization_rule_name", "identity"},
          {"add_dummy_prefix", space_before ? "true" : "false"},
          {"remove_extra_whitespaces", "false"},
          {"allow_whitespace_only_pieces", "true"}};
}

SentencePieceModel read(const std::string& file) {
  auto model = read_sentencepiece_model(file);
  REQUIRE_MESSAGE(model.ok(), model.error().message());
  return std::move(model).value();
}

const json& first_of(const json& list, const std::string& type) {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&type](const json& step) { return step["type"] == type; });
  REQUIRE_MESSAGE(found != list.end(), type);
  return *found;
}

}  // namespace

TEST_CASE("tokenizer.json of a SentencePiece model gives the tokens that the library makes") {
  for (const char* type : {"unigram", "bpe"}) {
    for (const bool space_before : {false, true}) {
      CAPTURE(type);
      CAPTURE(space_before);
      const std::string file = sample_model(identity(type, space_before));
      sentencepiece::SentencePieceProcessor library;
      REQUIRE(library.LoadFromSerializedProto(file).ok());
      const Reader reader(sentencepiece_json(read(file)));
      for (const std::string& text :
           {std::string(), std::string("a"), std::string("  ta  ri "), std::string("\n\n ta"),
            std::string("aaaaaaa tatatata"), std::string("Ångström ½ 日本 <"), sample_text(300, 3),
            sample_text(300, 4), sample_text(300, 5)}) {
        CAPTURE(text);
        std::vector<int> expected;
        REQUIRE(library.Encode(text, &expected).ok());
        CHECK(reader.encode(text) == expected);
      }
    }
  }
}

TEST_CASE("user-defined pieces in a text leave the spaces around them as they are") {
  for (const char* type : {"unigram", "bpe"}) {
    for (const bool space_before : {false, true}) {
      for (const char* joins : {"true", "false"}) {
        CAPTURE(type);
        CAPTURE(space_before);
        CAPTURE(joins);
        TrainerOptions options = identity(type, space_before);
        options["remove_extra_whitespaces"] = joins;
        options["user_defined_symbols"] = "<sep>,ta,ri|(,a▁b,b a,<sep>>";
        const std::string file = sample_model(options);
        sentencepiece::SentencePieceProcessor library;
        REQUIRE(library.LoadFromSerializedProto(file).ok());
        const Reader reader(sentencepiece_json(read(file)));
        for (const std::string& text :
             {std::string("<sep>"), std::string(" <sep> "), std::string("ta <sep>  ri <sep>>ta"),
              std::string("a b  a ba  b"), std::string("ri|(ri| (ta"), std::string("  ta"),
              sample_text(300, 3), sample_text(200, 4) + "<sep> " + sample_text(200, 5)}) {
          CAPTURE(text);
          std::vector<int> expected;
          REQUIRE(library.Encode(text, &expected).ok());
          CHECK(reader.encode(text) == expected);
        }
      }
    }
  }
}

TEST_CASE("the name of a byte in a text is text where its characters are known") {
  SentencePieceModel model = read(sample_model(identity("unigram", false)));
  std::vector<Piece*> free;  // long ones, which nothing else needs
  for (Piece& piece : model.pieces) {
    if (piece.kind == PieceKind::kNormal && piece.text.size() > 6) free.push_back(&piece);
  }
  REQUIRE(free.size() > 6);
  const std::string name = "<0x41>";
  for (std::size_t i = 0; i < name.size(); ++i) free[i]->text = name[i];
  const Reader reader(sentencepiece_json(model));
  std::vector<int> expected;
  for (const char character : name) expected.push_back(reader.encode({character}).front());
  CHECK(reader.encode(name) == expected);
}

TEST_CASE("tokenizer.json says what a SentencePiece model does to a text, and what begins it") {
  const std::string file = sample_model({{"model_type", "bpe"},
                                         {"byte_fallback", "true"},
                                         {"normalization_rule_name", "nmt_nfkc"},
                                         {"user_defined_symbols", "<sep>,a▁b,b a,ﬁta"}});
  SentencePieceModel model = read(file);
  json format = json::parse(sentencepiece_json(model));
  const json& steps = format["normalizer"]["normalizers"];
  const std::string table = first_of(steps, "Precompiled")["precompiled_charsmap"];
  CHECK(table.size() == (model.character_map.size() + 2) / 3 * 4);
  CHECK(first_of(steps, "Prepend")["prepend"] == kPieceSpace);
  CHECK(steps.size() == 5);  // spaces at the ends, spaces side by side, spaces as pieces have them
  CHECK(first_of(format["decoder"]["decoders"], "Strip")["start"] == 1);

  std::map<std::string, bool> added;
  for (const json& token : format["added_tokens"]) {
    const std::string content = token["content"];
    added[content] = token["special"];
    CHECK(model.pieces[token["id"]].text[0] == content[0]);
  }
  const std::map<std::string, bool> expected = {
      {"<unk>", true}, {"<s>", true}, {"</s>", true}, {"ﬁta", false}};  // which would be changed
  CHECK(added == expected);
  CHECK(format["pre_tokenizer"]["pattern"]["Regex"] == "<sep>|a▁b");
  CHECK(format["post_processor"]["single"][0]["SpecialToken"]["id"] == "<s>");
  CHECK(format["post_processor"]["special_tokens"]["<s>"]["ids"] == json::array({1}));

  model.begin_name = "<none>";
  CHECK(json::parse(sentencepiece_json(model))["post_processor"].is_null());
}

}  // namespace starling::model
