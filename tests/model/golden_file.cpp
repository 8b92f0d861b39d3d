#include "tests/model/golden_file.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

namespace starling::model {

namespace {

template <class T>
std::vector<T> read_words(std::istream& in, std::size_t count) {
  static_assert(sizeof(T) == 4);
  std::vector<T> words(count);
  in.read(reinterpret_cast<char*>(words.data()), static_cast<std::streamsize>(count * sizeof(T)));
  REQUIRE(in.good());
  return words;
}

}  // namespace

Golden::Golden(const std::string& name) {
  const std::string path = std::string(STARLING_MODEL_GOLDENS) + "/" + name;
  std::ifstream text(path + ".txt");
  std::ifstream binary(path + ".bin", std::ios::binary);
  REQUIRE(text.good());
  REQUIRE(binary.good());
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string key, tensor;
    words >> key;
    if (key != "tensor") {
      double value = 0;
      words >> value;
      set(key, value);
      continue;
    }
    std::size_t count = 0;
    words >> tensor >> count;
    if (tensor == "inputs" || tensor == "targets") {
      tokens_[tensor] = read_words<std::int32_t>(binary, count);
    } else {
      tensors_[tensor] = read_words<float>(binary, count);
    }
  }
}

TokenBatch Golden::batch() const {
  return {.inputs = integers("inputs"), .targets = integers("targets")};
}

std::span<const float> Golden::floats(const std::string& name) const {
  const auto found = tensors_.find(name);
  REQUIRE(found != tensors_.end());
  return found->second;
}

std::span<const std::int32_t> Golden::integers(const std::string& name) const {
  const auto found = tokens_.find(name);
  REQUIRE(found != tokens_.end());
  return found->second;
}

void Golden::set(const std::string& key, double value) {
  const auto whole = static_cast<std::int64_t>(value);
  const std::map<std::string, std::int64_t*> dimensions = {
      {"vocabulary", &config_.vocabulary}, {"width", &config_.width},
      {"layers", &config_.layers},         {"heads", &config_.heads},
      {"kv_heads", &config_.kv_heads},     {"ffn", &config_.ffn},
      {"context", &config_.context},       {"sequences", &shape_.sequences},
      {"tokens", &shape_.tokens},
  };
  if (const auto found = dimensions.find(key); found != dimensions.end()) {
    *found->second = whole;
  } else if (key == "rope_theta") {
    config_.rope_theta = static_cast<float>(value);
  } else if (key == "norm_epsilon") {
    config_.norm_epsilon = static_cast<float>(value);
  } else {
    REQUIRE(key == "tied_head");
    config_.tied_head = whole != 0;
  }
}

}  // namespace starling::model
