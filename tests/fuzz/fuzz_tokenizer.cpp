// Feeds the reader of tokenizer.json, and the tokenizers it makes, with hostile bytes. The first
// byte chooses: the rest is the file; the rest changes a sound file (a JSON merge patch), without
// which the fuzzer would have to write 256 tokens first; the rest is a text for a sound tokenizer.
// What a tokenizer accepts it must be able to encode, within its vocabulary.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.h"
#include "model/tokenizers/byte_alphabet.h"
#include "model/tokenizers/tokenizer_json.h"
#include "model/tokenizers/unicode.h"

namespace {

using namespace starling;
using namespace starling::model;
using Json = nlohmann::json;

constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

Json sound_file() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string name;
    append_character(alphabet_character(static_cast<unsigned char>(byte)), name);
    vocab[name] = byte;
  }
  vocab["th"] = 256;
  vocab["the"] = 257;
  const Json split = {{"type", "Split"},
                      {"behavior", "Isolated"},
                      {"invert", false},
                      {"pattern", {{"Regex", kQwen2}}}};
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
          {"added_tokens", {{{"content", "<e>"}, {"id", 258}, {"special", true}}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"t h", "th e"}}}}};
}

const std::string kSound = sound_file().dump();

void use(const Tokenizer& tokenizer, std::string_view text) {
  STARLING_ASSERT(tokenizer.name().size() <= kTokenizerNameMax);
  STARLING_ASSERT(tokenizer.cut(text) <= text.size());
  for (const auto special : {SpecialTokens::kAsText, SpecialTokens::kRecognised}) {
    std::vector<std::int32_t> tokens;
    tokenizer.encoder(special)->encode(text, tokens);
    for (const std::int32_t token : tokens) {
      STARLING_ASSERT(token >= 0);
      STARLING_ASSERT(token < tokenizer.vocabulary());
    }
    static_cast<void>(decode(tokenizer, tokens));
  }
}

void read_and_use(std::string_view file, std::string_view text) {
  auto tokenizer = read_tokenizer_json(file);
  if (tokenizer.ok()) use(*tokenizer.value(), text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 0) {
    read_and_use(rest, "the <e> \xff");
  } else if (data[0] % 3 == 1) {
    const Json patch = Json::parse(rest, nullptr, false);
    if (patch.is_discarded()) return 0;
    Json file = Json::parse(kSound);
    file.merge_patch(patch);
    // A patch may hold strings that are no UTF-8 any more.
    read_and_use(file.dump(-1, ' ', false, Json::error_handler_t::replace), rest);
  } else {
    static const auto tokenizer = read_tokenizer_json(kSound).value();
    use(*tokenizer, rest);
  }
  return 0;
}
