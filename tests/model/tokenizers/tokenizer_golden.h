// The tokenizer files and cases that scripts/make_tokenizer_goldens.py wrote with the reference
// implementation.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "model/tokenizers/tokenizer_json.h"

namespace starling::model {

std::string golden_text(const std::string& name);

inline nlohmann::json golden_file(const std::string& family) {
  return nlohmann::json::parse(golden_text(family + ".json"));
}

inline std::unique_ptr<Tokenizer> golden_tokenizer(const std::string& family) {
  auto tokenizer = read_tokenizer_json(golden_text(family + ".json"));
  REQUIRE(tokenizer.ok());
  return std::move(tokenizer).value();
}

}  // namespace starling::model
