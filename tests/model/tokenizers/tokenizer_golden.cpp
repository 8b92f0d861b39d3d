#include "tests/model/tokenizers/tokenizer_golden.h"

#include <fstream>
#include <iterator>

namespace starling::model {

std::string golden_text(const std::string& name) {
  std::ifstream file(std::string(STARLING_MODEL_GOLDENS) + "/tokenizers/" + name, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace starling::model
