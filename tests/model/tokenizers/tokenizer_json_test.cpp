#include "model/tokenizers/tokenizer_json.h"

#include <functional>

#include "tests/model/tokenizers/tokenizer_golden.h"

namespace starling::model {

namespace {

using Json = nlohmann::json;

// What is said about the family's file after `change`; "" if it is read.
std::string refusal(const std::string& family, const std::function<void(Json&)>& change) {
  Json file = golden_file(family);
  change(file);
  auto tokenizer = read_tokenizer_json(file.dump());
  return tokenizer.ok() ? std::string() : tokenizer.error().message();
}

bool names(const std::string& refusal, const std::string& field) {
  INFO(refusal);
  const bool found = refusal.find(field) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("a field that would change the tokens and is not understood is named") {
  const auto set = [](const std::string& family, const char* pointer, Json value) {
    return refusal(family, [&](Json& file) { file[Json::json_pointer(pointer)] = value; });
  };
  CHECK(refusal("gpt2", [](Json&) {}).empty());
  names(set("llama3", "/model/type", "Unigram"), "model.type is 'Unigram': only BPE");
  names(set("gpt2", "/model/dropout", 0.1), "model.dropout");
  names(set("gpt2", "/model/end_of_word_suffix", "</w>"), "model.end_of_word_suffix");
  names(set("gpt2", "/normalizer", {{"type", "Lowercase"}}), "normalizer.type is 'Lowercase'");
  names(set("gpt2", "/pre_tokenizer", nullptr), "pre_tokenizer is missing");
  names(set("gpt2", "/pre_tokenizer/type", "Metaspace"), "pre_tokenizer.type is 'Metaspace'");
  names(set("gpt2", "/pre_tokenizer/add_prefix_space", true), "add_prefix_space");
  names(set("qwen2", "/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\w+"), "'\\w+'");
  names(set("qwen2", "/pre_tokenizer/pretokenizers/0/behavior", "Removed"), "Isolated");
  names(set("qwen2", "/pre_tokenizer/pretokenizers/1/use_regex", true), "use_regex");
  names(set("qwen2", "/added_tokens/3/lstrip", true), "lstrip");
  names(set("qwen2", "/decoder/type", "WordPiece"), "decoder.type is 'WordPiece'");
}

TEST_CASE("numbers and names that contradict each other are refused") {
  const auto set = [](const std::string& family, const char* pointer, Json value) {
    return refusal(family, [&](Json& file) { file[Json::json_pointer(pointer)] = value; });
  };
  names(set("gpt2", "/model/vocab/th", 1 << 20), "'th' is not in [0, 1048576)");
  names(set("gpt2", "/model/vocab/th", -1), "'th'");
  names(set("gpt2", "/model/vocab/th", "1"), "'th'");
  names(set("gpt2", "/model/vocab/th", 5), "are both number 5");
  names(set("gpt2", "/model/vocab", Json::object()), "no token for byte 0");
  names(set("gpt2", "/model/vocab", Json::array()), "model.vocab");
  names(set("gpt2", "/model/merges", nullptr), "model.merges");
  names(set("gpt2", "/model/merges/3", "a b c"), "model.merges[3]");
  names(set("llama3", "/model/merges/3", {"a"}), "model.merges[3]");
  names(set("llama3", "/model/merges/3", {"t", "nobody"}), "'nobody'");
  names(set("qwen2", "/added_tokens/0/id", 17), "contradicts model.vocab");
  names(set("qwen2", "/added_tokens/0/id", 901), "number 901 is given twice");
  names(set("qwen2", "/added_tokens/0/content", "<think>"), "contradicts");
  names(set("qwen2", "/added_tokens/0/content", ""), "empty");
  names(set("qwen2", "/added_tokens/0/content", std::string(257, 'x')), "longer than 256");
}

TEST_CASE("what is no tokenizer at all is refused") {
  for (const std::string text : {"", "{", "[]", "3", "null", "{}", "\xff\xfe", "{\"model\":3}"}) {
    CAPTURE(text);
    auto tokenizer = read_tokenizer_json(text);
    REQUIRE(!tokenizer.ok());
    CHECK(tokenizer.error().message().find("tokenizer.json: ") == 0);
  }
  CHECK(!read_tokenizer_json(std::string(kTokenizerJsonBytesMax + 1, ' ')).ok());
  CHECK(!read_tokenizer_json(std::string(1 << 20, '[')).ok());
}

TEST_CASE("templates within templates are not followed, however many") {
  const std::string level = R"({"type":"TemplateProcessing","processors":[)";
  std::string nested, closed;
  for (int depth = 0; depth < 200'000; ++depth) {
    nested += level;
    closed += "]}";
  }
  Json file = golden_file("gpt2");
  file["post_processor"] = "HERE";
  std::string text = file.dump();
  text.replace(text.find("\"HERE\""), 6, nested + closed);
  CHECK(read_tokenizer_json(text).ok());
}

TEST_CASE("more merges than a vocabulary can use are refused before room is made for them") {
  names(refusal("gpt2",
                [](Json& file) { file["model"]["merges"] = Json::array_t(kMergesMax + 1, 1); }),
        "model.merges are more than the 4194304 that are read");
  names(refusal("qwen2",
                [](Json& file) {
                  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] =
                      std::string(100'000, 'x');
                }),
        std::string(400, 'x') + "...'");
}

}  // namespace starling::model
