#include "peer/files/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "model/tokenizers/byte_alphabet.h"
#include "model/tokenizers/unicode.h"
#include "peer/io/json_fields.h"

namespace starling::peer {
namespace {

using nlohmann::json;

// The number that people would write: 1e-05, and not the digits of the nearest float.
double plain(float value) { return std::strtod(fmt::format("{}", value).c_str(), nullptr); }

Error unlike(std::string message) {
  return Error(ErrorCode::kIncompatible, "config.json: " + std::move(message));
}

// Reads fields of an object; the first that is not as it must be is kept.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}

  std::int64_t count(const char* name, std::optional<std::int64_t> otherwise = std::nullopt) {
    const json* value = find(name);
    if (value == nullptr && otherwise) return *otherwise;
    if (value != nullptr && value->is_number_unsigned()) {
      const auto number = value->get<std::uint64_t>();
      if (number > 0 && number <= std::uint64_t{1} << 32) return static_cast<std::int64_t>(number);
    }
    refuse(name, "a positive number", value);
    return 1;
  }
  float real(const char* name, std::optional<float> otherwise = std::nullopt) {
    const json* value = find(name);
    if (value == nullptr && otherwise) return *otherwise;
    if (value != nullptr && value->is_number()) return value->get<float>();
    refuse(name, "a number", value);
    return 1;
  }
  bool flag(const char* name, bool otherwise) {
    const json* value = find(name);
    if (value == nullptr) return otherwise;
    if (value->is_boolean()) return value->get<bool>();
    refuse(name, "true or false", value);
    return otherwise;
  }
  // A field that may only have this value.
  void only(const char* name, const json& wanted) {
    const json* value = find(name);
    if (value != nullptr && *value != wanted) refuse(name, wanted.dump(), value);
  }
  // Null: absent, or null.
  const json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  void refuse(const char* name, std::string_view wanted, const json* value) {
    if (error_) return;
    std::string said =
        value == nullptr ? "missing" : value->dump(-1, ' ', true, json::error_handler_t::replace);
    if (said.size() > 80) said = said.substr(0, 80) + "...";
    error_.emplace(unlike(fmt::format("{} is {}, but only {} is supported", name, said, wanted)));
  }
  std::optional<Error>& error() { return error_; }

 private:
  const json& object_;
  std::optional<Error> error_;
};

// "rope_scaling" of transformers 4, or "rope_parameters" of 5, which holds the base as well.
void parse_rotation(Fields& fields, model::LlamaConfig& config) {
  config.rope_theta = fields.real("rope_theta", config.rope_theta);
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const json* value = fields.find(name);
    if (value == nullptr) continue;
    if (!value->is_object()) return fields.refuse(name, "an object", value);
    Fields inner(*value);
    config.rope_theta = inner.real("rope_theta", config.rope_theta);
    const json* type = inner.find("rope_type");
    if (type == nullptr) type = inner.find("type");
    if (type != nullptr && *type == "llama3") {
      config.rope_factor = inner.real("factor");
      config.rope_low_frequency = inner.real("low_freq_factor");
      config.rope_high_frequency = inner.real("high_freq_factor");
      config.rope_original_context = inner.count("original_max_position_embeddings");
    } else if (type != nullptr && *type != "default") {
      inner.refuse("rope_type", "\"llama3\" or \"default\"", type);
    }
    if (inner.error() && !fields.error()) {
      fields.error().emplace(std::move(*inner.error()).with_context(name));
    }
  }
}

}  // namespace

Result<model::LlamaConfig> parse_hugging_face_config(std::string_view text) {
  const json object = parse_shallow(text);
  if (!object.is_object()) return Error(ErrorCode::kCorrupt, "config.json is no JSON object");
  Fields fields(object);
  if (fields.find("model_type") == nullptr || *fields.find("model_type") != "llama") {
    fields.refuse("model_type", "\"llama\"", fields.find("model_type"));
  }
  model::LlamaConfig config;
  config.vocabulary = fields.count("vocab_size");
  config.width = fields.count("hidden_size");
  config.layers = fields.count("num_hidden_layers");
  config.heads = fields.count("num_attention_heads");
  config.kv_heads = fields.count("num_key_value_heads", config.heads);
  config.ffn = fields.count("intermediate_size");
  config.context = fields.count("max_position_embeddings", 2048);
  config.norm_epsilon = fields.real("rms_norm_eps", 1e-6F);
  config.tied_head = fields.flag("tie_word_embeddings", false);
  fields.only("hidden_act", "silu");
  fields.only("attention_bias", false);
  fields.only("mlp_bias", false);
  if (config.width % config.heads == 0) fields.only("head_dim", config.head_width());
  parse_rotation(fields, config);
  if (fields.error()) return std::move(*fields.error());
  if (Status valid = validate(config); !valid.ok()) {
    return std::move(valid).error().with_context("config.json");
  }
  return config;
}

std::vector<std::int64_t> parse_end_tokens(std::string_view text) {
  const json object = parse_shallow(text);
  const json& told = field(object, "eos_token_id");
  std::vector<std::int64_t> tokens;
  for (const json& token : told.is_array() ? told : json::array({told})) {
    if (token.is_number_integer()) tokens.push_back(token.get<std::int64_t>());
  }
  return tokens;
}

std::int64_t largest_added_token(std::string_view text) {
  const json object = parse_shallow(text);
  if (!object.is_object()) return -1;
  const json& list = field(object, "added_tokens");  // else added_tokens.json: name to id
  std::int64_t largest = -1;
  for (const json& token : list.is_array() ? list : object) {
    const json& id = list.is_array() ? field(token, "id") : token;
    if (id.is_number_integer()) largest = std::max(largest, id.get<std::int64_t>());
  }
  return largest;
}

Result<std::set<std::string>> parse_model_index(std::string_view text) {
  constexpr std::size_t kFilesMax = 4096;
  const json object = parse_shallow(text);
  const auto wrong = [](std::string what) { return Error(ErrorCode::kCorrupt, std::move(what)); };
  if (!object.is_object() || !object.contains("weight_map") || !object["weight_map"].is_object()) {
    return wrong("no JSON object with a weight_map");
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : object["weight_map"].items()) {
    if (!file.is_string()) return wrong("a file in weight_map is no text");
    names.insert(file.get<std::string>());
  }
  if (names.empty() || names.size() > kFilesMax) return wrong("no files, or too many");
  for (const std::string& name : names) {
    const bool dots = name.empty() || name == "." || name == "..";
    if (dots || std::filesystem::path(name).filename() != name) {
      return wrong(fmt::format("the file name \"{}\" leads out of the folder", name));
    }
  }
  return names;
}

std::string hugging_face_config(const model::LlamaConfig& config, FloatType type,
                                const DocumentMarks& marks) {
  const auto id = [](const std::optional<std::int32_t>& token) {
    return token ? json(*token) : json();
  };
  json scaling;
  if (config.rope_factor != 1.0F) {
    scaling = {{"rope_type", "llama3"},
               {"factor", plain(config.rope_factor)},
               {"low_freq_factor", plain(config.rope_low_frequency)},
               {"high_freq_factor", plain(config.rope_high_frequency)},
               {"original_max_position_embeddings", config.rope_original_context}};
  }
  constexpr std::array<const char*, 3> kTypes{"float32", "bfloat16", "float16"};
  const json object = {{"architectures", {"LlamaForCausalLM"}},
                       {"model_type", "llama"},
                       {"vocab_size", config.vocabulary},
                       {"hidden_size", config.width},
                       {"intermediate_size", config.ffn},
                       {"num_hidden_layers", config.layers},
                       {"num_attention_heads", config.heads},
                       {"num_key_value_heads", config.kv_heads},
                       {"head_dim", config.head_width()},
                       {"hidden_act", "silu"},
                       {"max_position_embeddings", config.context},
                       {"rms_norm_eps", plain(config.norm_epsilon)},
                       {"rope_theta", plain(config.rope_theta)},
                       {"rope_scaling", scaling},
                       {"attention_bias", false},
                       {"attention_dropout", 0.0},
                       {"mlp_bias", false},
                       {"initializer_range", 0.02},
                       {"tie_word_embeddings", config.tied_head},
                       {"bos_token_id", id(marks.begin)},
                       {"eos_token_id", id(marks.end)},
                       {"torch_dtype", kTypes[static_cast<std::size_t>(type)]},
                       {"use_cache", true}};
  return object.dump(2) + "\n";
}

std::string byte_tokenizer_json() {
  json vocabulary = json::object();
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string name;
    model::append_character(model::alphabet_character(static_cast<unsigned char>(byte)), name);
    vocabulary[name] = byte;
  }
  const auto bytes = [](bool prefix) {
    return json{{"type", "ByteLevel"},
                {"add_prefix_space", prefix},
                {"trim_offsets", true},
                {"use_regex", false}};
  };
  const json object = {{"version", "1.0"},
                       {"truncation", nullptr},
                       {"padding", nullptr},
                       {"added_tokens", json::array()},
                       {"normalizer", nullptr},
                       {"pre_tokenizer", bytes(false)},
                       {"post_processor", nullptr},
                       {"decoder", bytes(true)},
                       {"model",
                        {{"type", "BPE"},
                         {"dropout", nullptr},
                         {"unk_token", nullptr},
                         {"continuing_subword_prefix", nullptr},
                         {"end_of_word_suffix", nullptr},
                         {"fuse_unk", false},
                         {"byte_fallback", false},
                         {"ignore_merges", false},
                         {"vocab", vocabulary},
                         {"merges", json::array()}}}};
  return object.dump(1) + "\n";
}

}  // namespace starling::peer
