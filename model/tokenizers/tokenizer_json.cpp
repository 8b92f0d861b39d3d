#include "model/tokenizers/tokenizer_json.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "model/tokenizers/bpe_tokenizer.h"
#include "model/tokenizers/byte_alphabet.h"
#include "model/tokenizers/unicode.h"

namespace starling::model {

namespace {

using Json = nlohmann::json;

Error fault(std::string message) {
  return Error(ErrorCode::kInvalidConfig, "tokenizer.json: " + std::move(message));
}

// A name out of the file, fit to be shown.
std::string shown(std::string_view name, std::size_t bytes_max = 40) {
  return name.size() <= bytes_max ? std::string(name)
                                  : std::string(name.substr(0, bytes_max)) + "...";
}

// Null if `object` has no such field, or a null.
const Json* field(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_field(const Json& object, const char* name) {
  const Json* found = field(object, name);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

bool flag(const Json& object, const char* name, bool otherwise = false) {
  const Json* found = field(object, name);
  return found != nullptr && found->is_boolean() ? found->get<bool>() : otherwise;
}

std::optional<std::int32_t> token_number(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<std::uint64_t>();
  if (number >= kVocabularyMax) return std::nullopt;
  return static_cast<std::int32_t>(number);
}

// --- the parts of the file ---

// Tokens by the names the file gives them. The names belong to the parsed file.
using TokensByName = std::unordered_map<std::string_view, std::int32_t>;

struct Vocabulary {
  TokensByName by_name;
  std::vector<const std::string*> names;  // of each token; null: none
};

Result<Vocabulary> read_vocabulary(const Json& model) {
  const Json* vocab = field(model, "vocab");
  if (vocab == nullptr || !vocab->is_object()) return fault("model.vocab is missing or no object");
  Vocabulary vocabulary;
  vocabulary.by_name.reserve(vocab->size());
  for (auto entry = vocab->begin(); entry != vocab->end(); ++entry) {
    const std::string& name = entry.key();
    const auto token = token_number(*entry);
    if (!token) {
      return fault(fmt::format("model.vocab: the number of '{}' is not in [0, {})", shown(name),
                               kVocabularyMax));
    }
    const auto at = static_cast<std::size_t>(*token);
    if (vocabulary.names.size() <= at) vocabulary.names.resize(at + 1, nullptr);
    if (vocabulary.names[at] != nullptr) {
      return fault(fmt::format("model.vocab: '{}' and '{}' are both number {}",
                               shown(*vocabulary.names[at]), shown(name), *token));
    }
    vocabulary.names[at] = &name;
    vocabulary.by_name.emplace(name, *token);
  }
  return vocabulary;
}

Result<PairMerges::ByteTokens> read_byte_tokens(const TokensByName& tokens) {
  PairMerges::ByteTokens bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string name;
    append_character(alphabet_character(static_cast<unsigned char>(i)), name);
    const auto found = tokens.find(name);
    if (found == tokens.end()) {
      return fault(
          fmt::format("model.vocab has no token for byte {} ('{}'): only byte-level "
                      "tokenizers with all 256 bytes are read",
                      i, name));
    }
    bytes[i] = found->second;
  }
  return bytes;
}

// "a b" or ["a", "b"].
std::optional<std::pair<std::string_view, std::string_view>> merge_of(const Json& value) {
  if (value.is_string()) {
    const std::string_view text = value.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      return std::nullopt;
    }
    return std::pair(text.substr(0, space), text.substr(space + 1));
  }
  if (!value.is_array() || value.size() != 2 || !value[0].is_string() || !value[1].is_string()) {
    return std::nullopt;
  }
  return std::pair<std::string_view, std::string_view>(value[0].get_ref<const std::string&>(),
                                                       value[1].get_ref<const std::string&>());
}

Result<PairMerges> read_merges(const Json& model, const TokensByName& tokens) {
  auto bytes = read_byte_tokens(tokens);
  if (!bytes.ok()) return std::move(bytes).error();
  const Json* list = field(model, "merges");
  if (list == nullptr || !list->is_array()) return fault("model.merges is missing or no list");
  if (list->size() > kMergesMax) {
    return fault(fmt::format("model.merges are more than the {} that are read", kMergesMax));
  }
  PairMerges merges(bytes.value(), list->size());
  std::int32_t rank = 0;
  std::string joined;
  for (const Json& value : *list) {
    const auto merge = merge_of(value);
    if (!merge) {
      return fault(fmt::format("model.merges[{}] is neither \"a b\" nor [\"a\", \"b\"]", rank));
    }
    joined.assign(merge->first).append(merge->second);
    const auto left = tokens.find(merge->first);
    const auto right = tokens.find(merge->second);
    const auto both = tokens.find(joined);
    if (left == tokens.end() || right == tokens.end() || both == tokens.end()) {
      return fault(
          fmt::format("model.merges[{}] joins '{}' and '{}', which model.vocab does not "
                      "have, or not what they become",
                      rank, shown(merge->first), shown(merge->second)));
    }
    merges.add(left->second, right->second, {rank++, both->second});
  }
  return merges;
}

Status check_model(const Json& model) {
  const std::string type = text_field(model, "type");
  if (!type.empty() && type != "BPE") {
    return fault(fmt::format("model.type is '{}': only BPE is read", shown(type)));
  }
  if (field(model, "dropout") != nullptr && *field(model, "dropout") != 0) {
    return fault("model.dropout is set: tokens would be chosen by chance, which is not done here");
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json* found = field(model, affix);
    if (found != nullptr && *found != "") {
      return fault(
          fmt::format("model.{} is set: only byte-level tokenizers, which have none, are "
                      "read",
                      affix));
    }
  }
  return ok_status();
}

Result<bool> read_normalizer(const Json& file) {
  const Json* normalizer = field(file, "normalizer");
  if (normalizer == nullptr) return false;
  const std::string type = text_field(*normalizer, "type");
  if (type == "NFC") return true;
  return fault(
      fmt::format("normalizer.type is '{}': only NFC, or no normalizer, is read", shown(type)));
}

constexpr const char* kPreTokenizers =
    "only ByteLevel, or a Sequence of Split and ByteLevel, as GPT-2, Llama 3 and Qwen have it, is "
    "read";

Result<WordPattern> read_split(const Json& split) {
  if (text_field(split, "behavior") != "Isolated" || flag(split, "invert")) {
    return fault("pre_tokenizer: Split is read with behavior Isolated and without invert only");
  }
  const Json* pattern = field(split, "pattern");
  const std::string regex = pattern != nullptr ? text_field(*pattern, "Regex") : "";
  const auto known = word_pattern(regex);
  if (known) return *known;
  return fault(
      fmt::format("pre_tokenizer: the Regex '{}' of Split is not one of those of GPT-2, "
                  "Llama 3 and Qwen 2, which are read",
                  shown(regex, 400)));
}

Result<WordPattern> read_pre_tokenizer(const Json& file) {
  const Json* top = field(file, "pre_tokenizer");
  if (top == nullptr) return fault(fmt::format("pre_tokenizer is missing: {}", kPreTokenizers));
  std::vector<const Json*> steps = {top};
  if (text_field(*top, "type") == "Sequence") {
    steps.clear();
    const Json* list = field(*top, "pretokenizers");
    if (list != nullptr && list->is_array()) {
      for (const Json& step : *list) steps.push_back(&step);
    }
  }
  const bool split = steps.size() == 2 && text_field(*steps[0], "type") == "Split";
  const bool byte_level = !steps.empty() && text_field(*steps.back(), "type") == "ByteLevel";
  if (!byte_level || (steps.size() != 1 && !split)) {
    const std::string type = text_field(*top, "type");
    return fault(fmt::format("pre_tokenizer.type is '{}', and it is not built as those we know: {}",
                             shown(type), kPreTokenizers));
  }
  if (flag(*steps.back(), "add_prefix_space", true)) {
    return fault("pre_tokenizer: add_prefix_space is on: only tokenizers without it are read");
  }
  const bool own_pattern = flag(*steps.back(), "use_regex", true);
  if (!split) return own_pattern ? WordPattern::kGpt2 : WordPattern::kWhole;
  if (own_pattern) return fault("pre_tokenizer: use_regex of ByteLevel must be off behind Split");
  return read_split(*steps[0]);
}

struct Added {
  std::vector<AddedToken> as_is, normalized;
};

Result<Added> read_added(const Json& file, const Vocabulary& vocabulary) {
  Added added;
  const Json* list = field(file, "added_tokens");
  if (list == nullptr) return added;
  if (!list->is_array()) return fault("added_tokens is no list");
  TokensByName seen;
  std::unordered_set<std::int32_t> numbers;
  for (const Json& entry : *list) {
    const Json* content = field(entry, "content");
    const Json* id = field(entry, "id");
    const auto token = id != nullptr ? token_number(*id) : std::nullopt;
    if (content == nullptr || !content->is_string() || !token) {
      return fault(fmt::format("added_tokens: an entry has no content, or no id in [0, {})",
                               kVocabularyMax));
    }
    const std::string& text = content->get_ref<const std::string&>();
    if (text.empty() || text.size() > kAddedTokenBytesMax) {
      return fault(fmt::format("added_tokens: the content of {} is empty or longer than {} bytes",
                               *token, kAddedTokenBytesMax));
    }
    for (const char* option : {"lstrip", "rstrip", "single_word"}) {
      if (!flag(entry, option)) continue;
      return fault(
          fmt::format("added_tokens: '{}' has {} on, which is not read", shown(text), option));
    }
    const auto at = static_cast<std::size_t>(*token);
    const bool taken = at < vocabulary.names.size() && vocabulary.names[at] != nullptr;
    const auto known = vocabulary.by_name.find(text);
    const bool moved = known != vocabulary.by_name.end() && known->second != *token;
    if ((taken && *vocabulary.names[at] != text) || moved || !seen.emplace(text, *token).second) {
      return fault(
          fmt::format("added_tokens: '{}' as number {} contradicts model.vocab or another "
                      "added token",
                      shown(text), *token));
    }
    if (!numbers.insert(*token).second) {
      return fault(fmt::format("added_tokens: number {} is given twice", *token));
    }
    (flag(entry, "normalized") ? added.normalized : added.as_is)
        .push_back({text, *token, flag(entry, "special")});
  }
  return added;
}

// The template, of a list of processors the first.
const Json& template_of(const Json& post_processor) {
  const Json* list = field(post_processor, "processors");
  if (list == nullptr || !list->is_array()) return post_processor;
  for (const Json& processor : *list) {
    if (text_field(processor, "type") == "TemplateProcessing") return processor;
  }
  return post_processor;
}

// The special token that a template puts before a text alone; empty if there is none.
std::string begin_of(const Json& post_processor) {
  const Json* single = field(template_of(post_processor), "single");
  if (single == nullptr || !single->is_array() || single->empty()) return {};
  const Json* first = field(single->front(), "SpecialToken");
  return first != nullptr ? text_field(*first, "id") : std::string();
}

std::optional<std::int32_t> special_named(const Added& added, std::string_view text) {
  for (const auto* tokens : {&added.as_is, &added.normalized}) {
    for (const AddedToken& token : *tokens) {
      if (token.special && token.text == text) return token.token;
    }
  }
  return std::nullopt;
}

std::optional<std::int32_t> end_token(const Added& added) {
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<|eos|>", "<eos>"}) {
    if (const auto token = special_named(added, name)) return token;
  }
  return std::nullopt;
}

std::vector<std::string> texts_of(const Vocabulary& vocabulary, const Added& added) {
  std::vector<std::string> texts;
  for (const std::string* name : vocabulary.names) {
    // What is not in the alphabet stands for itself, as in the reference.
    texts.push_back(name == nullptr ? std::string() : bytes_in_alphabet(*name).value_or(*name));
  }
  for (const auto* tokens : {&added.as_is, &added.normalized}) {
    for (const AddedToken& token : *tokens) {
      const auto at = static_cast<std::size_t>(token.token);
      if (texts.size() <= at) texts.resize(at + 1);
      texts[at] = token.special ? std::string() : token.text;
    }
  }
  return texts;
}

std::unordered_map<std::string, std::int32_t> whole_words(const Json& model,
                                                          const Vocabulary& vocabulary) {
  std::unordered_map<std::string, std::int32_t> words;
  if (!flag(model, "ignore_merges")) return words;
  words.reserve(vocabulary.by_name.size());
  for (const auto& [name, token] : vocabulary.by_name) {
    if (auto bytes = bytes_in_alphabet(name)) words.emplace(std::move(*bytes), token);
  }
  return words;
}

Result<std::unique_ptr<Tokenizer>> assemble(const Json& file, std::string name) {
  const Json* model = field(file, "model");
  if (model == nullptr || !model->is_object()) return fault("model is missing or no object");
  auto checked = check_model(*model);
  if (!checked.ok()) return std::move(checked).error();
  auto vocabulary = read_vocabulary(*model);
  if (!vocabulary.ok()) return std::move(vocabulary).error();
  auto merges = read_merges(*model, vocabulary.value().by_name);
  if (!merges.ok()) return std::move(merges).error();
  auto normal = read_normalizer(file);
  if (!normal.ok()) return std::move(normal).error();
  auto pattern = read_pre_tokenizer(file);
  if (!pattern.ok()) return std::move(pattern).error();
  const Json* decoder = field(file, "decoder");
  if (decoder != nullptr && text_field(*decoder, "type") != "ByteLevel") {
    return fault(fmt::format("decoder.type is '{}': only ByteLevel is read",
                             shown(text_field(*decoder, "type"))));
  }
  auto added = read_added(file, vocabulary.value());
  if (!added.ok()) return std::move(added).error();

  const Json* post_processor = field(file, "post_processor");
  const std::string begin = post_processor != nullptr ? begin_of(*post_processor) : "";
  const auto begin_token = special_named(added.value(), begin);
  const auto end = end_token(added.value());
  NormalFormC normal_form;
  for (AddedToken& token : added.value().normalized) {
    if (normal.value()) token.text = std::string(normal_form.normalize(token.text));
  }
  auto texts = texts_of(vocabulary.value(), added.value());
  return std::unique_ptr<Tokenizer>(std::make_unique<BpeTokenizer>(
      BpeParts{.name = std::move(name),
               .texts = std::move(texts),
               .merges = std::move(merges).value(),
               .pattern = pattern.value(),
               .normal_form_c = normal.value(),
               .whole_words = whole_words(*model, vocabulary.value()),
               .added = AddedTokens(std::move(added.value().as_is)),
               .added_normalized = AddedTokens(std::move(added.value().normalized)),
               .begin_token = begin_token,
               .end_token = end}));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> read_tokenizer_json(std::string_view text) {
  if (text.size() > kTokenizerJsonBytesMax) {
    return fault(fmt::format("{} bytes; at most {} are read", text.size(), kTokenizerJsonBytesMax));
  }
  try {
    const Json file = Json::parse(text);
    return assemble(file, fmt::format("bpe-{:016x}", digest(text)));
  } catch (const Json::parse_error& error) {
    return fault(fmt::format("broken or cut short: no JSON from byte {} on", error.byte));
  } catch (const Json::exception& error) {
    return fault(error.what());
  }
}

}  // namespace starling::model
