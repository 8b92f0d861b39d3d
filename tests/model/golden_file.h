// Golden: one fixture written by scripts/make_model_goldens.py, which documents the format.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/llama_config.h"
#include "model/token_batch.h"

namespace starling::model {

class Golden {
 public:
  // A fixture that cannot be read fails the test that asks for it.
  explicit Golden(const std::string& name);

  const LlamaConfig& config() const { return config_; }
  const BatchShape& shape() const { return shape_; }
  TokenBatch batch() const;
  bool has(const std::string& name) const { return tensors_.count(name) > 0; }
  std::span<const float> floats(const std::string& name) const;

 private:
  void set(const std::string& key, double value);
  std::span<const std::int32_t> integers(const std::string& name) const;

  LlamaConfig config_;
  BatchShape shape_;
  std::map<std::string, std::vector<float>> tensors_;
  std::map<std::string, std::vector<std::int32_t>> tokens_;
};

}  // namespace starling::model
