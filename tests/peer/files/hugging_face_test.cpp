#include "peer/files/hugging_face.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace starling::peer {
namespace {

using nlohmann::json;

// The fields that matter, as Llama 3.2 1B's config.json has them.
json small_llama() {
  return {{"model_type", "llama"},
          {"vocab_size", 128},
          {"hidden_size", 64},
          {"intermediate_size", 96},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 16},
          {"hidden_act", "silu"},
          {"max_position_embeddings", 256},
          {"rms_norm_eps", 1e-05},
          {"rope_theta", 500000.0},
          {"rope_scaling",
           {{"factor", 32.0},
            {"high_freq_factor", 4.0},
            {"low_freq_factor", 1.0},
            {"original_max_position_embeddings", 8192},
            {"rope_type", "llama3"}}},
          {"tie_word_embeddings", true}};
}

std::string refusal(const json& object) {
  auto config = parse_hugging_face_config(object.dump());
  REQUIRE_FALSE(config.ok());
  return config.error().message();
}

std::string refusal(const char* name, const json& value) {
  json object = small_llama();
  object[name] = value;
  return refusal(object);
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("config.json of a Llama tells the numbers of the architecture") {
  auto config = parse_hugging_face_config(small_llama().dump());
  REQUIRE(config.ok());
  const model::LlamaConfig& model = config.value();
  CHECK(model.vocabulary == 128);
  CHECK(model.width == 64);
  CHECK(model.ffn == 96);
  CHECK(model.layers == 3);
  CHECK(model.heads == 4);
  CHECK(model.kv_heads == 2);
  CHECK(model.context == 256);
  CHECK(model.norm_epsilon == 1e-5F);
  CHECK(model.rope_theta == 500000.0F);
  CHECK(model.rope_factor == 32.0F);
  CHECK(model.rope_low_frequency == 1.0F);
  CHECK(model.rope_high_frequency == 4.0F);
  CHECK(model.rope_original_context == 8192);
  CHECK(model.tied_head);
}

TEST_CASE("what config.json leaves out has the defaults of its format") {
  json object = small_llama();
  for (const char* name : {"num_key_value_heads", "head_dim", "rope_theta", "rope_scaling",
                           "tie_word_embeddings", "rms_norm_eps"}) {
    object.erase(name);
  }
  auto config = parse_hugging_face_config(object.dump());
  REQUIRE(config.ok());
  CHECK(config.value().kv_heads == 4);
  CHECK(config.value().rope_theta == 10000.0F);
  CHECK(config.value().rope_factor == 1.0F);
  CHECK(config.value().norm_epsilon == 1e-6F);
  CHECK_FALSE(config.value().tied_head);
}

TEST_CASE("newer versions keep the rotation's base among its parameters") {
  json object = small_llama();
  json parameters = object["rope_scaling"];
  parameters["rope_theta"] = 250000.0;
  object.erase("rope_scaling");
  object.erase("rope_theta");
  object["rope_parameters"] = parameters;
  auto config = parse_hugging_face_config(object.dump());
  REQUIRE(config.ok());
  CHECK(config.value().rope_theta == 250000.0F);
  CHECK(config.value().rope_factor == 32.0F);
}

TEST_CASE("what is written as config.json reads back as the same architecture") {
  model::LlamaConfig config;
  for (const float factor : {1.0F, 8.0F}) {
    config.rope_factor = factor;
    config.norm_epsilon = 1e-5F;
    config.rope_theta = 12345.678F;
    config.tied_head = !config.tied_head;
    const std::string text = hugging_face_config(config, FloatType::kBf16);
    CHECK(mentions(text, "1e-05"));  // and not the digits of the nearest float
    auto again = parse_hugging_face_config(text);
    REQUIRE(again.ok());
    CHECK(hugging_face_config(again.value(), FloatType::kBf16) == text);
    CHECK(again.value().rope_factor == factor);
    CHECK(again.value().tied_head == config.tied_head);
  }
}

TEST_CASE("a model that is no Llama of ours is refused and the field is named") {
  CHECK(mentions(refusal("model_type", "mixtral"), "model_type is \"mixtral\""));
  CHECK(mentions(refusal("hidden_act", "gelu"), "hidden_act"));
  CHECK(mentions(refusal("attention_bias", true), "attention_bias is true"));
  CHECK(mentions(refusal("mlp_bias", true), "mlp_bias"));
  CHECK(mentions(refusal("head_dim", 32), "head_dim is 32, but only 16"));
  CHECK(mentions(refusal("rope_scaling", json{{"rope_type", "yarn"}, {"factor", 2.0}}), "yarn"));
  CHECK(mentions(refusal("rope_scaling", 4), "rope_scaling"));
  CHECK(mentions(refusal("vocab_size", -1), "vocab_size is -1"));
  CHECK(mentions(refusal("vocab_size", 1e300), "vocab_size"));
  CHECK(mentions(refusal("vocab_size", nullptr), "vocab_size is missing"));
  CHECK(mentions(refusal("hidden_size", 66), "model.heads"));
  CHECK(mentions(refusal("rms_norm_eps", "small"), "rms_norm_eps"));
  CHECK(mentions(refusal("tie_word_embeddings", 1), "tie_word_embeddings"));
  CHECK(refusal("model_type", std::string(1'000'000, 'x')).size() < 300);
  CHECK_FALSE(parse_hugging_face_config("[]").ok());
  CHECK_FALSE(parse_hugging_face_config("{\"model_type\":").ok());
  CHECK_FALSE(parse_hugging_face_config("").ok());
}

TEST_CASE("what config.json nests without end is refused like any other value") {
  const std::size_t depth = 200'000;
  const std::string type = std::string(depth, '[') + std::string(depth, ']');
  auto config = parse_hugging_face_config("{\"model_type\":" + type + "}");
  REQUIRE_FALSE(config.ok());
  CHECK(config.error().message().find("model_type is") != std::string::npos);
}

TEST_CASE("the ends of a text and what was added to a tokenizer are read, whatever stands there") {
  using Tokens = std::vector<std::int64_t>;
  CHECK(parse_end_tokens(R"({"eos_token_id": 2})") == Tokens{2});
  CHECK(parse_end_tokens(R"({"eos_token_id": [128001, 128008]})") == Tokens{128001, 128008});
  for (const char* text : {"", "[", "{}", "7", R"({"eos_token_id": null})",
                           R"({"eos_token_id": {"a": 1}})", R"({"eos_token_id": ["x", 1.5]})"}) {
    CAPTURE(text);
    CHECK(parse_end_tokens(text).empty());
  }
  CHECK(largest_added_token(R"({"<|im_start|>": 32000, "<|im_end|>": 32001})") == 32001);
  CHECK(largest_added_token(R"({"added_tokens": [{"id": 2, "content": "</s>"}, {"id": 1}]})") == 2);
  for (const char* text : {"", "[]", "{}", "x", R"({"added_tokens": [1, "a", {"id": "5"}]})",
                           R"({"model": {"vocab": {"a": 7}}})"}) {
    CAPTURE(text);
    CHECK(largest_added_token(text) == -1);
  }
}

TEST_CASE("the tokenizer of a model of bytes has a letter for each byte") {
  const json object = json::parse(byte_tokenizer_json());
  const json& vocabulary = object["model"]["vocab"];
  REQUIRE(vocabulary.size() == 256);
  std::set<int> tokens;
  for (const auto& [letter, token] : vocabulary.items()) tokens.insert(token.get<int>());
  CHECK(tokens.size() == 256);
  CHECK(vocabulary["A"] == 0x41);
  CHECK(vocabulary["\u0120"] == 0x20);  // a space
  CHECK(vocabulary["\u010A"] == 0x0A);  // a line feed
  CHECK(vocabulary["\u00FF"] == 0xFF);
  CHECK(vocabulary["\u0143"] == 0xAD);  // the last that does not print
}

}  // namespace starling::peer
