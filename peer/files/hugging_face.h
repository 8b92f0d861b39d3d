// config.json of Hugging Face's model folders, for the Llama family, and the names of the files
// beside it. What a config.json asks for and our model does not do (biases, other activations,
// heads of another width, other stretched rotations) is an error that names the field. Pure
// functions of foreign text.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/llama_config.h"
#include "peer/files/safetensors.h"

namespace starling::peer {

inline constexpr std::string_view kModelConfigName = "config.json";
inline constexpr std::string_view kModelIndexName = "model.safetensors.index.json";
inline constexpr std::string_view kModelFileName = "model.safetensors";
inline constexpr std::size_t kModelConfigBytesMax = std::size_t{1} << 20;

Result<model::LlamaConfig> parse_hugging_face_config(std::string_view text);

// The tokens after which a text is over, as config.json tells them; empty: it does not.
std::vector<std::int64_t> parse_end_tokens(std::string_view text);
// The largest id of a token that was added to a tokenizer's own, as tokenizer.json or
// added_tokens.json tells it; -1: none, or it cannot be read.
std::int64_t largest_added_token(std::string_view text);

// The files that hold the weights, each once, as model.safetensors.index.json names them; none
// leads out of its folder.
Result<std::set<std::string>> parse_model_index(std::string_view text);

// What stands before and after a document.
struct DocumentMarks {
  std::optional<std::int32_t> begin{}, end{};
};

// `type`: what the weights beside it are stored as. Marks that are unknown are null.
std::string hugging_face_config(const model::LlamaConfig& config, FloatType type,
                                const DocumentMarks& marks = {});

// tokenizer.json for models of bytes: 256 tokens, and no merges.
std::string byte_tokenizer_json();

}  // namespace starling::peer
